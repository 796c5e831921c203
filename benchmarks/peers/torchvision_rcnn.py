#!/usr/bin/python3
"""Times training steps or inference of torchvision's R-CNNs beside `detforge bench train` and `detforge bench eval`.

Same network (ResNet-50-FPN, frozen norms, stem and res2 frozen), same image size and, in training, objects per image,
torchvision's defaults for the rest: 512 ROIs per image, 1000 proposals per image after NMS, as configs/COCO-Detection
has. Inference: 1000 proposals per image, of 2000 a level before NMS, and at most 100 detections, masks of 28x28 that
are not pasted, images already normalised. Images are noise of the given size, so there is no resizing. Prints one line of JSON.

    benchmarks/peers/torchvision_rcnn.py --task train --size 800x1344 --batch 1 --iters 3 --threads 2
"""
import argparse

import torch
import torchvision

from timing import measure, report


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=["train", "eval"], default="train")
    parser.add_argument("--size", default="800x1344", help="height x width of the images")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--iters", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", choices=["faster", "mask"], default="faster")
    parser.add_argument("--objects", type=int, default=8, help="ground-truth boxes per image")
    parser.add_argument("--score-threshold", type=float, default=0.05)
    return parser.parse_args()


class NoResize(torchvision.models.detection.transform.GeneralizedRCNNTransform):
    """torchvision resizes inside the model; the benchmark gives final sizes."""

    def resize(self, image, target):
        return image, target


class NoTransform(NoResize):
    """For inference: images come normalised, masks leave as the network gives them."""

    def forward(self, images, targets=None):
        sizes = [tuple(image.shape[-2:]) for image in images]
        return torchvision.models.detection.image_list.ImageList(torch.stack(images), sizes), targets

    def postprocess(self, result, image_shapes, original_image_sizes):
        return result


def octagon_masks(boxes, height, width):
    """One bitmap per box: the box with its corners cut off by a quarter, as detforge's made-up objects."""
    y, x = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
    masks = torch.zeros(len(boxes), height, width, dtype=torch.uint8)
    for mask, (x1, y1, x2, y2) in zip(masks, boxes.tolist()):
        u = ((x - (x1 + x2) / 2).abs() / ((x2 - x1) / 2))
        v = ((y - (y1 + y2) / 2).abs() / ((y2 - y1) / 2))
        mask[(u <= 1) & (v <= 1) & (u + v <= 1.5)] = 1
    return masks


def make_batch(args, height, width, generator):
    images = [torch.rand(3, height, width, generator=generator) for _ in range(args.batch)]
    targets = []
    for _ in range(args.batch):
        corner = torch.rand(args.objects, 2, generator=generator) * torch.tensor([width * 0.7, height * 0.7])
        extent = 16 + torch.rand(args.objects, 2, generator=generator) * torch.tensor([width * 0.25, height * 0.25])
        boxes = torch.cat([corner, corner + extent], 1)
        boxes[:, 2].clamp_(max=width)
        boxes[:, 3].clamp_(max=height)
        target = {"boxes": boxes, "labels": torch.randint(1, 81, (args.objects,), generator=generator)}
        if args.model == "mask":
            target["masks"] = octagon_masks(boxes, height, width)
        targets.append(target)
    return images, targets


def make_model(args):
    build = {"faster": torchvision.models.detection.fasterrcnn_resnet50_fpn,
             "mask": torchvision.models.detection.maskrcnn_resnet50_fpn}[args.model]
    model = build(
        weights=None, weights_backbone=None, num_classes=81, trainable_backbone_layers=5,
        rpn_pre_nms_top_n_train=2000, rpn_post_nms_top_n_train=1000, rpn_pre_nms_top_n_test=2000,
        rpn_post_nms_top_n_test=1000, box_score_thresh=args.score_threshold, box_detections_per_img=100)
    body = model.backbone.body
    # The weights argument alone would make these frozen; there are no weights here, so it is done by hand.
    def freeze_norms(module):
        for name, child in module.named_children():
            if isinstance(child, torch.nn.BatchNorm2d):
                frozen = torchvision.ops.FrozenBatchNorm2d(child.num_features)
                setattr(module, name, frozen)
            else:
                freeze_norms(child)
    freeze_norms(body)
    for name, parameter in body.named_parameters():
        if name.startswith("conv1") or name.startswith("layer1"):
            parameter.requires_grad_(False)
    old = model.transform
    transform = NoResize if args.task == "train" else NoTransform
    model.transform = transform(old.min_size, old.max_size, old.image_mean, old.image_std)
    return model.train(args.task == "train")


def count_regions(model, counts):
    """Keeps in `counts` on how many regions the heads work."""
    heads = model.roi_heads
    heads.box_head.register_forward_pre_hook(lambda module, inputs: counts.update({"ROIs": len(inputs[0])}))
    if heads.mask_head is not None:
        heads.mask_head.register_forward_pre_hook(lambda module, inputs: counts.update({"mask ROIs": len(inputs[0])}))


def training(args, model, images, targets, counts):
    """A function that makes one step."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.0, momentum=0.9,
                                weight_decay=1e-4)

    def step():
        losses = model(images, targets)
        total = sum(losses.values())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        return counts

    return step


def inference(args, model, images, counts):
    """A function that finds the objects of all images once."""

    def step():
        with torch.inference_mode():
            found = model(images)
        counts["detections"] = sum(len(image["scores"]) for image in found)
        return counts

    return step


def main():
    args = parse_arguments()
    height, width = (int(value) for value in args.size.split("x"))
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(1)
    model = make_model(args)
    images, targets = make_batch(args, height, width, generator)
    counts = {"ROIs": 0, "mask ROIs": 0}
    count_regions(model, counts)
    step = training(args, model, images, targets, counts) if args.task == "train" else inference(args, model, images,
                                                                                                 counts)
    report("torchvision " + torchvision.__version__, args, *measure(args, step))


if __name__ == "__main__":
    main()
