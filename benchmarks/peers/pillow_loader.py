"""The loader's work in Pillow and NumPy, one thread: the peer of benchmarks/loader_bench.cpp.

For each JPEG: decode, resize the short edge to 800 (bilinear, at most 1333), mirror, BGR, (x - mean) / std in
float32, planes padded with zeros to a multiple of 32. Prints images per second of CPU time.
Usage: pillow_loader.py FOLDER SECONDS      (make-images FOLDER writes 640x480 JPEGs if there are none)
"""
import glob
import os
import sys
import time

import numpy as np
from PIL import Image

MEAN = np.array([103.53, 116.28, 123.675], np.float32)
STD = np.array([57.375, 57.12, 58.395], np.float32)


def load(path):
    image = Image.open(path).convert("RGB")
    scale = min(800 / min(image.size), 1333 / max(image.size))
    size = (int(image.width * scale + 0.5), int(image.height * scale + 0.5))
    pixels = np.asarray(image.resize(size, Image.BILINEAR))
    pixels = pixels[:, ::-1, ::-1]  # mirrored, BGR
    planes = np.zeros((3, -(-size[1] // 32) * 32, -(-size[0] // 32) * 32), np.float32)
    planes[:, : size[1], : size[0]] = ((pixels.astype(np.float32) - MEAN) / STD).transpose(2, 0, 1)
    return planes


def make_images(folder, count=16):
    """Pictures with detail at every scale, as photographs have; about 80 kB each."""
    rng = np.random.default_rng(1)
    os.makedirs(folder, exist_ok=True)
    for index in range(count):
        total = np.zeros((480, 640, 3), np.float32)
        for cell in (160, 80, 40, 20, 10, 5):
            noise = rng.integers(0, 256, (480 // cell + 1, 640 // cell + 1, 3), np.uint8)
            total += cell**0.7 * np.asarray(Image.fromarray(noise).resize((640, 480), Image.BICUBIC), np.float32)
        total = 255 * (total - total.min()) / (total.max() - total.min())
        Image.fromarray(total.astype(np.uint8)).save(os.path.join(folder, f"{index:02}.jpg"), quality=92)


def main():
    if sys.argv[1] == "make-images":
        make_images(sys.argv[2])
        return
    paths = sorted(glob.glob(os.path.join(sys.argv[1], "*.jpg")))
    seconds = float(sys.argv[2])
    for path in paths:
        load(path)  # warm-up: file cache and allocator
    count, start, cpu_start = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - start < seconds:
        load(paths[count % len(paths)])
        count += 1
    print(f"{count / (time.process_time() - cpu_start):.2f}")


if __name__ == "__main__":
    main()
