#!/usr/bin/python3
"""Times training steps or inference of a plain PyTorch YOLOv3 (Darknet-53) beside `detforge bench`.

Same network, assignment, losses and step as configs/COCO-YOLOv3: backbone norms on running statistics, anchors of
the objects' cells with IoU above 0.5 and each object's best, sum-reduced losses, SGD with momentum, gradients
clipped at norm 35. Inference: mmdetection 3's selection (conf from 0.005, the 1000 most probable pairs of anchor and
class above 0.05), NMS at 0.45 within each class, at most 100 detections. Images are noise of the given size. Prints
one line of JSON. --count prints the parameters only.

    benchmarks/peers/yolov3.py --task train --size 416x416 --batch 4 --iters 3 --threads 2
"""
import argparse

import torch
import torchvision
from torch import nn
from torch.nn import functional as F

from timing import measure, report

STRIDES = (32, 16, 8)
ANCHORS = (((116, 90), (156, 198), (373, 326)), ((30, 61), (62, 45), (59, 119)), ((10, 13), (16, 30), (33, 23)))
CLASSES = 80


class Conv(nn.Module):
    def __init__(self, inputs, outputs, kernel, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return F.leaky_relu(self.norm(self.conv(x)), 0.1, inplace=True)


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.narrow, self.wide = Conv(channels, channels // 2, 1), Conv(channels // 2, channels, 3)

    def forward(self, x):
        return x + self.wide(self.narrow(x))


class Darknet53(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = Conv(3, 32, 3)
        self.stages = nn.ModuleList()
        channels = 32
        for blocks in (1, 2, 8, 8, 4):
            self.stages.append(nn.Sequential(Conv(channels, 2 * channels, 3, 2),
                                             *(Residual(2 * channels) for _ in range(blocks))))
            channels *= 2

    def forward(self, x):
        x, maps = self.stem(x), []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return maps[:1:-1]  # strides 32, 16, 8

    def train(self, mode=True):
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        return self


class YoloV3(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Darknet53()
        self.blocks, self.joins, self.bridges, self.predictions = (nn.ModuleList() for _ in range(4))
        inputs = 1024
        for level, width in enumerate((512, 256, 128)):
            self.blocks.append(nn.Sequential(Conv(inputs, width, 1), Conv(width, 2 * width, 3),
                                             Conv(2 * width, width, 1), Conv(width, 2 * width, 3),
                                             Conv(2 * width, width, 1)))
            self.bridges.append(Conv(width, 2 * width, 3))
            self.predictions.append(nn.Conv2d(2 * width, 3 * (5 + CLASSES), 1))
            if level < 2:
                self.joins.append(Conv(width, width // 2, 1))
                inputs = width // 2 + width
        for prediction in self.predictions:
            nn.init.normal_(prediction.weight, std=0.01)
            nn.init.zeros_(prediction.bias)

    def forward(self, images):
        maps, out, top = self.backbone(images), [], None
        for level, feature in enumerate(maps):
            if level > 0:
                up = F.interpolate(self.joins[level - 1](top), scale_factor=2, mode="nearest")
                feature = torch.cat([up, feature], 1)
            top = self.blocks[level](feature)
            out.append(self.predictions[level](self.bridges[level](top)))
        return out


def make_anchors(height, width):
    """Anchor boxes [M,4] xyxy and strides [M]: row-major cells, anchors innermost."""
    boxes, strides = [], []
    for stride, sizes in zip(STRIDES, ANCHORS):
        y, x = torch.meshgrid(torch.arange(height // stride), torch.arange(width // stride), indexing="ij")
        centre = (torch.stack([x, y], -1).reshape(-1, 1, 2) + 0.5) * stride
        half = torch.tensor(sizes, dtype=torch.float32).reshape(1, -1, 2) / 2
        boxes.append(torch.cat([centre - half, centre + half], -1).reshape(-1, 4))
        strides.append(torch.full((len(boxes[-1]),), float(stride)))
    return torch.cat(boxes), torch.cat(strides)


def box_iou(a, b):
    corner = torch.minimum(a[:, None, 2:], b[None, :, 2:]) - torch.maximum(a[:, None, :2], b[None, :, :2])
    inter = corner.clamp(min=0).prod(-1)
    area = lambda boxes: (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    return inter / (area(a)[:, None] + area(b)[None] - inter).clamp(min=1e-6)


def assign(anchors, strides, boxes):
    """0 negative, -1 ignored, k > 0: object k - 1."""
    iou = box_iou(anchors, boxes)
    best, index = iou.max(1)
    assigned = torch.full((len(anchors),), -1)
    assigned[best <= 0.5] = 0
    cell = lambda points: torch.div(points, strides[:, None, None], rounding_mode="floor")
    anchor_cell = cell(((anchors[:, :2] + anchors[:, 2:]) / 2)[:, None])
    responsible = (anchor_cell == cell(((boxes[:, :2] + boxes[:, 2:]) / 2)[None])).all(-1)
    own = responsible.any(1)
    iou = torch.where(own[:, None], iou, torch.full_like(iou, -1))
    best, index = iou.max(1)
    positive = own & (best > 0.5)
    assigned[positive] = index[positive] + 1
    for k, most in enumerate(iou.max(0).values):
        if most > 0:
            assigned[own & (iou[:, k] == most)] = k + 1
    return assigned


def yolo_losses(maps, anchors, strides, targets):
    flat = torch.cat([m.permute(0, 2, 3, 1).reshape(m.shape[0], -1, 5 + CLASSES) for m in maps], 1)
    total = flat.new_zeros(4)
    bce = lambda logits, wanted: F.binary_cross_entropy_with_logits(logits, wanted, reduction="sum")
    for prediction, (boxes, labels) in zip(flat, targets):
        assigned = assign(anchors, strides, boxes)
        positive = (assigned > 0).nonzero().squeeze(1)
        counted = assigned >= 0
        total[1] += bce(prediction[counted, 4], (assigned[counted] > 0).float())
        gt, anchor, own = boxes[assigned[positive] - 1], anchors[positive], prediction[positive]
        centre = lambda b: (b[:, :2] + b[:, 2:]) / 2
        xy = ((centre(gt) - centre(anchor)) / strides[positive, None] + 0.5).clamp(1e-6, 1 - 1e-6)
        wh = ((gt[:, 2:] - gt[:, :2]) / (anchor[:, 2:] - anchor[:, :2])).clamp(min=1e-6).log()
        total[0] += bce(own[:, 5:], F.one_hot(labels[assigned[positive] - 1], CLASSES).float())
        total[2] += 2 * bce(own[:, :2], xy)
        total[3] += 2 * F.mse_loss(own[:, 2:4], wh, reduction="sum")
    return total


def make_batch(args, height, width, generator):
    images = torch.rand(args.batch, 3, height, width, generator=generator)
    targets = []
    for _ in range(args.batch):
        scale = torch.tensor([width, height], dtype=torch.float32)
        corner = torch.rand(args.objects, 2, generator=generator) * scale * 0.7
        extent = 16 + torch.rand(args.objects, 2, generator=generator) * scale * 0.25
        boxes = torch.cat([corner, torch.minimum(corner + extent, scale)], 1)
        targets.append((boxes, torch.randint(0, CLASSES, (args.objects,), generator=generator)))
    return images, targets


def detections(maps, anchors, strides):
    """Boxes, scores and labels of each image."""
    flat = torch.cat([m.permute(0, 2, 3, 1).reshape(m.shape[0], -1, 5 + CLASSES) for m in maps], 1)
    centre, half = (anchors[:, :2] + anchors[:, 2:]) / 2, (anchors[:, 2:] - anchors[:, :2]) / 2
    found = []
    for prediction in flat:
        conf = prediction[:, 4].sigmoid()
        chosen = (conf >= 0.005).nonzero().squeeze(1)
        own = prediction[chosen]
        middle = centre[chosen] + (own[:, :2].sigmoid() - 0.5) * strides[chosen, None]
        reach = half[chosen] * own[:, 2:4].exp()
        boxes = torch.cat([middle - reach, middle + reach], 1)
        usable = (boxes.isfinite().all(1) & (reach > 0).all(1)).nonzero().squeeze(1)
        boxes, conf, classes = boxes[usable], conf[chosen][usable], own[usable, 5:].sigmoid()
        anchor, label = (classes > 0.05).nonzero().unbind(1)
        order = classes[anchor, label].topk(min(1000, len(anchor))).indices
        anchor, label = anchor[order], label[order]
        boxes, scores = boxes[anchor], conf[anchor] * classes[anchor, label]
        keep = torchvision.ops.batched_nms(boxes, scores, label, 0.45)[:100]
        found.append((boxes[keep], scores[keep], label[keep]))
    return found


def training(model, images, targets):
    """A function that makes one step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9, weight_decay=5e-4)

    def step():
        anchors, strides = make_anchors(*images.shape[2:])
        loss = yolo_losses(model(images), anchors, strides, targets).sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 35)
        optimizer.step()
        return {}

    return step


def inference(model, images):
    """A function that finds the objects of all images once, and says how many boxes there were."""

    def step():
        with torch.inference_mode():
            found = detections(model(images), *make_anchors(*images.shape[2:]))
        return {"detections": sum(len(boxes) for boxes, scores, labels in found)}

    return step


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=["train", "eval"], default="train")
    parser.add_argument("--size", default="416x416", help="height x width of the images, multiples of 32")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--iters", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--objects", type=int, default=8, help="ground-truth boxes per image")
    parser.add_argument("--count", action="store_true")
    return parser.parse_args()


def main():
    args = parse_arguments()
    height, width = (int(value) for value in args.size.split("x"))
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    model = YoloV3().train(args.task == "train")
    if args.count:
        print(sum(p.numel() for p in model.parameters()))
        return
    images, targets = make_batch(args, height, width, torch.Generator().manual_seed(1))
    step = training(model, images, targets) if args.task == "train" else inference(model, images)
    report("PyTorch " + torch.__version__, args, *measure(args, step))


if __name__ == "__main__":
    main()
