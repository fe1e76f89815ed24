#!/usr/bin/env python3
"""The pages of `berth report --html`, as a browser shows them: pages.py BUILD, in the format TAP.

At 800 and at 1,600 pixels no text may lie on another or on a bar, or stick out of the page, and each start must have
its bar. Needs chromium.
"""
import base64
import datetime
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

IMAGES = ["nvcr.io/nvidia/pytorch:24.01-py3", "debian:12",
          "registry.example.com/a-team/with-a-rather-long-name/and-more-of-it/solver:2026.11.26-rc1"]
NODES = ["gpu-node-01", "n2", "a-node-with-a-long-name-0003", "gpu-node-04", "gpu-node-05", "gpu-node-06"]
NOON = datetime.datetime(2025, 11, 26, 12, tzinfo=datetime.timezone.utc)

# What a reader would see: the boxes of all texts of the page, in pixels.
LOOK = r"""<script>
addEventListener('load', () => {
  const boxes = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walk.nextNode());) {
    if (!node.data.trim() || node.parentElement.closest('title, script')) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) boxes.push([node.data.trim(), box.left, box.top, box.right, box.bottom]);
  }
  const bars = [...document.querySelectorAll('rect')].map(bar => bar.getBoundingClientRect())
    .filter(box => box.width > 0).map(box => ['a bar', box.left, box.top, box.right, box.bottom]);
  document.title = 'seen';
  document.documentElement.setAttribute('data-seen', btoa(unescape(encodeURIComponent(JSON.stringify(
    {boxes, bars, drawn: document.querySelectorAll('g rect').length, width: innerWidth,
     wide: document.documentElement.scrollWidth})))));
});
</script>"""


def event(kind, seconds, **about):
    when = (NOON + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return dict({"time": when, "kind": kind, "uid": 1000, "user": "alice", "node": "n1", "job": "1.0",
                 "image": IMAGES[0]}, **about)


def start(seconds, phases, source, **about):
    return event("start", seconds, us=sum(phases.values()), phases=phases, bytes=0, **{"from": source}, **about)


def events():
    """Of a job of six nodes, one of which fails, and of a site's thirty hours."""
    chance = random.Random(3)
    out = []
    for number, node in enumerate(NODES[:-1]):
        pull = {"asking": 39_000, "waiting": 400_000 * (number % 2), "pulling": 2_000_000 + 1_500_000 * number,
                "merging": 120_000}
        took = sum(pull.values())
        out.append(event("pull", took / 1e6, node=node, job="4711.0", us=took, phases=pull, bytes=2_377_956_844,
                         peer_bytes=2_000_000_000, published_bytes=0))
        phases = {"image": took + 4_000, "plan": 1_200, "overlay": 900, "enter": 2_600}
        out.append(start(sum(phases.values()) / 1e6, phases, "pull", node=node, job="4711.0"))
    out.append(event("failure", 9, node=NODES[-1], job="4711.0", of="start", cause="space", us=2_000_000,
                     error="writing a layer: No space left on device; remove images by berth gc"))
    # A node that starts before its image is here.
    phases = {"image": 200_000, "plan": 1_200, "enter": 2_600}
    out.append(start(0.5, phases, "pull", node="n1", job="4711.0"))
    out.append(event("pull", 30, node="n1", job="4711.0", us=29_600_000, phases={"pulling": 29_600_000},
                     bytes=2_377_956_844))
    for hour in range(30):
        for number in range(chance.randint(1, 60)):
            phases = {"image": chance.randint(1_500, 9_000), "plan": 1_000, "overlay": 900}
            out.append(start(hour * 3600 + number * 50, phases, chance.choice(["store"] * 9 + ["pull"]),
                             job=f"{5000 + hour}.{number}", image=chance.choice(IMAGES)))
    return out


def seen(page, width):
    """What chromium makes of a page of so many pixels."""
    watched = re.sub(r"<meta http-equiv[^>]*>", "", page.read_text()).replace("</body>", LOOK + "</body>")
    copy = page.with_suffix(".watched.html")
    copy.write_text(watched)
    shown = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},2000",
         f"--user-data-dir={page.parent}/profile", "--virtual-time-budget=10000", "--dump-dom", copy.as_uri()],
        capture_output=True, text=True, check=True).stdout
    found = re.search(r'data-seen="([^"]*)"', shown)
    if not found:
        raise SystemExit(f"pages: chromium has not run the page's script: {shown[:400]}")
    return json.loads(base64.b64decode(found.group(1)))


def mistakes(what):
    """Texts that lie on one another or on a bar by more than a pixel, and those that stick out."""
    out = []
    for number, (text, left, top, right, bottom) in enumerate(what["boxes"]):
        if left < 0 or right > what["width"]:
            out.append(f"sticks out: {text!r}")
        for other, l, t, r, b in what["boxes"][:number] + what["bars"]:
            if min(right, r) - max(left, l) > 1 and min(bottom, b) - max(top, t) > 1:
                out.append(f"{text!r} lies on {other!r}")
    if what["wide"] > what["width"]:
        out.append(f"the page is {what['wide']} pixels wide")
    return out


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    pages = {"job": ["--job", "4711"], "site": []}
    # Phases of six starts, what came after one of them, and the one that failed; each hour has warm starts, most have
    # cold ones, one has a failure.
    least = {"job": 6 * 3 + 2, "site": 30 + 20 + 1}
    print(f"1..{2 * len(pages)}")
    number, bad = 0, 0
    with tempfile.TemporaryDirectory(prefix="berth-pages-") as folder:
        log = pathlib.Path(folder) / "events.jsonl"
        log.write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in events()))
        for name, options in pages.items():
            page = pathlib.Path(folder) / f"{name}.html"
            subprocess.run([build / "berth", "report", *options, "--html", page, log], check=True)
            for width in (800, 1600):
                number += 1
                what = seen(page, width)
                wrong = mistakes(what)
                if len(what["boxes"]) < 20:
                    wrong.append(f"only {len(what['boxes'])} texts")
                if what["drawn"] < least[name]:
                    wrong.append(f"only {what['drawn']} bars")
                print(f"{'not ok' if wrong else 'ok'} {number} - the {name}'s page at {width} pixels")
                for line in wrong[:10]:
                    print(f"# {line}")
                bad += bool(wrong)
    raise SystemExit(bad > 0)


if __name__ == "__main__":
    main()
