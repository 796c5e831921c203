"""How the peers measure and report: as `detforge bench` does."""
import json
import resource
import time


def measure(args, step):
    """Seconds of each of args.iters calls of step(), after args.warmup others, and what the last returned."""
    seconds, counts = [], {}
    for call in range(args.warmup + args.iters):
        start = time.perf_counter()
        counts = step()
        if call >= args.warmup:
            seconds.append(time.perf_counter() - start)
    return seconds, counts


def report(program, args, seconds, counts):
    """Prints one line of JSON."""
    seconds = sorted(seconds)
    median = seconds[len(seconds) // 2]
    print(json.dumps({"program": program, "task": args.task, "size": args.size, "batch": args.batch,
                      "threads": args.threads, "objects": args.objects, "seconds_per_step": median,
                      "images_per_s": args.batch / median, "best_images_per_s": args.batch / seconds[0],
                      "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, **counts}))
