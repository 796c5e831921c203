#!/usr/bin/python3
"""Times training steps of torchvision's fasterrcnn_resnet50_fpn or maskrcnn_resnet50_fpn beside `detforge bench train`.

Same work as configs/COCO-Detection/faster_rcnn_R_50_FPN_1x or COCO-InstanceSegmentation/mask_rcnn_R_50_FPN_1x: frozen batch norm, stem and res2 frozen, 1000 proposals,
512 sampled boxes, SGD with momentum. Images are noise at the given size and are not resized. Prints one line of JSON.

    benchmarks/peers/torchvision_train.py --size 800x1344 --batch 1 --iters 3 --threads 2
"""
import argparse
import json
import resource
import time

import torch
import torchvision


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="800x1344", help="height x width of the images")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--iters", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", choices=["faster", "mask"], default="faster")
    parser.add_argument("--objects", type=int, default=8, help="ground-truth boxes per image")
    return parser.parse_args()


class NoResize(torchvision.models.detection.transform.GeneralizedRCNNTransform):
    """torchvision resizes inside the model; the benchmark gives final sizes."""

    def resize(self, image, target):
        return image, target


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


def make_model(name):
    build = {"faster": torchvision.models.detection.fasterrcnn_resnet50_fpn,
             "mask": torchvision.models.detection.maskrcnn_resnet50_fpn}[name]
    model = build(
        weights=None, weights_backbone=None, num_classes=81, trainable_backbone_layers=5,
        rpn_pre_nms_top_n_train=2000, rpn_post_nms_top_n_train=1000)
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
    model.transform = NoResize(old.min_size, old.max_size, old.image_mean, old.image_std)
    return model.train()


def main():
    args = parse_arguments()
    height, width = (int(value) for value in args.size.split("x"))
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(1)
    model = make_model(args.model)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.0, momentum=0.9,
                                weight_decay=1e-4)
    images, targets = make_batch(args, height, width, generator)
    seconds = []
    for step in range(args.warmup + args.iters):
        start = time.perf_counter()
        losses = model(images, targets)
        total = sum(losses.values())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        if step >= args.warmup:
            seconds.append(time.perf_counter() - start)
    seconds.sort()
    median = seconds[len(seconds) // 2]
    print(json.dumps({"program": "torchvision " + torchvision.__version__, "size": args.size, "batch": args.batch,
                      "threads": args.threads, "objects": args.objects, "seconds_per_step": median, "images_per_s": args.batch / median,
                      "best_images_per_s": args.batch / seconds[0],
                      "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))


if __name__ == "__main__":
    main()
