#!/usr/bin/python3
"""Markdown tables of figures that `detforge bench --json` and benchmarks/peers print.

    tables.py compare FOLDER            of FOLDER/MODEL-TASK-SIZE-BATCH.ours and .peer, one line of JSON a run
    tables.py growth FOLDER             of FOLDER/MODEL.ours
    tables.py curves FOLDER PICTURE     of the run folders in FOLDER, the first to be compared with each other one; the losses as a picture
    tables.py write PAGE NAME TABLE     puts the file TABLE between the comments "NAME begin" and "NAME end" of PAGE
"""
import json
import pathlib
import re
import statistics
import sys

MODELS = {"faster": "Faster R-CNN R50-FPN", "mask": "Mask R-CNN R50-FPN", "yolo": "YOLOv3 Darknet-53"}
TASKS = {"train": "training", "eval": "inference"}


def read_runs(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def median(runs, key):
    return statistics.median(run[key] for run in runs)


def table(header, rows):
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, ["---"] * len(header), *rows])


def regions(runs):
    """What the heads worked on in the last run: ROIs, ROIs of masks, detections, where there are any."""
    return " / ".join(str(runs[-1][key]) for key in ("ROIs", "mask ROIs", "detections") if runs[-1].get(key))


def side(runs, gflop, peak):
    """Cells of one program: images/s, seconds a step, MiB, percent of peak."""
    seconds = median(runs, "seconds_per_step")
    return [f"{median(runs, 'images_per_s'):.3f}", f"{seconds:.2f}", str(max(run["peak_rss_mib"] for run in runs)),
            f"{100 * gflop / seconds / peak:.0f} %"]


def compare(folder):
    rows = []
    order = list(MODELS)
    names = [path.stem.split("-") for path in folder.glob("*.ours")]
    for name in sorted(names, key=lambda n: (list(TASKS).index(n[1]), order.index(n[0]), n[2], n[3])):
        model, task, size, batch = name
        ours, peer = (read_runs(folder / f"{'-'.join(name)}.{kind}") for kind in ("ours", "peer"))
        gflop, peak = median(ours, "GFLOP/step"), max(run["peak GFLOP/s"] for run in ours)
        same = regions(ours) if regions(ours) == regions(peer) else f"{regions(ours)}, peer {regions(peer)}"
        ratio = median(ours, "images_per_s") / median(peer, "images_per_s")
        rows.append([f"{MODELS[model]}, {TASKS[task]}", f"{size}, {batch}", *side(ours, gflop, peak),
                     *side(peer, gflop, peak), f"**{ratio:.2f}**", same, f"{gflop:.0f}"])
    return table(["model", "image, batch", "DetForge img/s", "s", "MiB", "peak", "peer img/s", "s", "MiB", "peak",
                  "ratio", "regions", "GFLOP"], rows)


def growth(folder):
    rows = []
    for model in MODELS:
        path = folder / f"{model}.ours"
        runs = read_runs(path) if path.exists() else []
        for first in dict.fromkeys((run["size"], run["batch"]) for run in runs):
            by_threads = {run["threads"]: run for run in runs if (run["size"], run["batch"]) == first}
            one, most = by_threads[min(by_threads)], by_threads[max(by_threads)]
            height, width = (int(edge) for edge in most["size"].split("x"))
            megapixels = height * width * most["batch"] / 1e6
            rows.append([f"{MODELS[model]}, {TASKS[most['task']]}", f"{most['size']}, {most['batch']}",
                         f"{one['seconds_per_step']:.2f}", f"{most['seconds_per_step']:.2f}",
                         f"{one['seconds_per_step'] / most['seconds_per_step']:.2f}",
                         f"{most['seconds_per_step'] / megapixels:.2f}", f"{most['% of peak']:.0f} %",
                         str(most["peak_rss_mib"])])
    threads = sorted({run["threads"] for path in folder.glob("*.ours") for run in read_runs(path)})
    return table(["model", "image, batch", f"s a step, {threads[0]} thread(s)", f"s a step, {threads[-1]} threads",
                  "times faster", "s a megapixel", "peak", "MiB"], rows)


def read_curve(run):
    """Iterations and total losses."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if "total_loss" in line]
    return [line["iteration"] + 1 for line in lines], [line["total_loss"] for line in lines]


def read_ap(run):
    """The AP of each kind, in percent, of the last evaluation."""
    last = max((run / "eval").iterdir(), key=lambda folder: int(folder.name.removeprefix("iter_")))
    metrics = json.loads((last / "metrics.json").read_text())
    by_kind = {"bbox": metrics} if "AP" in metrics else metrics
    return {kind: 100 * numbers["AP"] for kind, numbers in by_kind.items()}


def curves(folder, picture):
    runs = sorted((path.parent for path in folder.glob("*/metrics.jsonl")), key=lambda run: (run / "config.yaml").stat().st_mtime)
    losses = {run.name: read_curve(run) for run in runs}
    picture.write_text(draw(losses))
    first = losses[runs[0].name][1]
    rows = []
    for run in runs:
        values = losses[run.name][1]
        apart = statistics.mean(abs(a - b) / b for a, b in zip(values, first))
        rows.append([run.name, *(f"{statistics.mean(values[i * len(values) // 5:(i + 1) * len(values) // 5]):.3f}" for i in range(5)),
                     "" if run == runs[0] else f"{100 * apart:.1f} %",
                     ", ".join(f"{kind} {ap:.1f}" for kind, ap in read_ap(run).items())])
    return table(["run", "loss of the first fifth", "second", "third", "fourth", "last", "mean distance to the first run", "AP"], rows)


def draw(losses):
    """Curves of (iterations, values) by name, as SVG."""
    width, height, left, bottom = 720, 360, 50, 30
    last = max(steps[-1] for steps, _ in losses.values())
    top = max(max(values) for _, values in losses.values())
    colours = ["#0072b2", "#d55e00", "#999999", "#009e73"]
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
             f'<rect width="{width}" height="{height}" fill="white"/>']

    def place(step, value):
        return (f"{left + (width - left - 10) * step / last:.1f},"
                f"{height - bottom - (height - bottom - 10) * value / top:.1f}")

    for tick in range(5):
        value = top * tick / 4
        x, y = place(0, value).split(",")
        parts.append(f'<line x1="{x}" y1="{y}" x2="{width - 10}" y2="{y}" stroke="#ddd"/>'
                     f'<text x="{left - 6}" y="{float(y) + 4}" text-anchor="end">{value:.2f}</text>'
                     f'<text x="{place(last * tick / 4, 0).split(",")[0]}" y="{height - 10}" text-anchor="middle">{last * tick // 4}</text>')
    for (name, (steps, values)), colour in zip(losses.items(), colours):
        points = " ".join(place(step, value) for step, value in zip(steps, values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    for row, (name, colour) in enumerate(zip(losses, colours)):
        parts.append(f'<text x="{width - 220}" y="{30 + 18 * row}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>\n"])


def write(page, name, table_file):
    text = pathlib.Path(page).read_text()
    new = pathlib.Path(table_file).read_text().strip()
    place = re.compile(rf"(<!-- {re.escape(name)} begin[^\n]*-->\n).*?(<!-- {re.escape(name)} end -->)", re.S)
    if len(place.findall(text)) != 1:
        sys.exit(f"{page} needs one pair of comments <!-- {name} begin --> and <!-- {name} end -->")
    pathlib.Path(page).write_text(place.sub(lambda match: f"{match[1]}\n{new}\n\n{match[2]}", text))


def main():
    match sys.argv[1:]:
        case ["compare", folder]:
            print(compare(pathlib.Path(folder)))
        case ["growth", folder]:
            print(growth(pathlib.Path(folder)))
        case ["curves", folder, picture]:
            print(curves(pathlib.Path(folder), pathlib.Path(picture)))
        case ["write", page, name, table_file]:
            write(page, name, table_file)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
