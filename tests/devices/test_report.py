"""The page of a run: what it says, and that a real browser shows it on a phone, light and dark."""

import html
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ember as torch
from ember import nn
from ember.core import engine
from ember.core.executor import current_executor
from ember.devices.report import parts_of

ROOT = Path(__file__).resolve().parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
needs_browser = pytest.mark.skipif(
    BROWSER is None,
    reason=f"no browser on this machine ({', '.join(BROWSERS)}): on Debian, apt install chromium",
)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of examples/report.py."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    done = subprocess.run(
        [sys.executable, "-m", "ember", "report", "--gpus", "2x64MiB", "-o", path,
         "examples/report.py"],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("the last loss: ")
    assert done.stderr == f"ember: the report is in {path}\n"
    return path


def test_what_the_page_says(page):
    text = page.read_text()
    plain = html.unescape(re.sub(r"<[^>]+>", "", text))
    assert "At most 13.5 MiB of 64.0 MiB, in the backward of model.blocks[2].narrow" in plain
    for words in (
        "cuda:1, by module",
        "What is where",
        "model.blocks[5] Block",
        "add + standardized",
    ):
        assert words in plain, words
    found = re.search(r"torch.compile makes (\d+) kernels of the (\d+) in the forward", plain)
    assert 0 < int(found[1]) < int(found[2])
    assert "cpu → cuda:0: 2.5 MiB" in plain and "pageable memory" in plain
    assert text.count("<svg") == 6  # two devices twice, the arrows, the steps


def test_the_page_needs_nothing_else(page):
    text = page.read_text()
    assert "<script" not in text and "http" not in text and "@import" not in text
    assert not re.search(r'\b(src|href)="(?!#)', text) and "url(#tip)" in text
    assert "prefers-color-scheme: dark" in text and "width=device-width" in text


PROBE = """<!doctype html><body style="margin:0"><iframe id=f style="border:0"></iframe><script>
const text = PAGE, results = {};
async function look(width) {
  const frame = document.getElementById("f");
  frame.style.width = width + "px"; frame.style.height = "800px";
  await new Promise(done => { frame.onload = done; frame.srcdoc = text; });
  const page = frame.contentDocument, view = frame.contentWindow;
  const style = e => view.getComputedStyle(e);
  const small = [...page.querySelectorAll("p, li, td, th, h1, h2, h3, span, text")]
    .filter(e => e.textContent.trim() && e.getBoundingClientRect().width)
    .map(e => {
      let size = parseFloat(style(e).fontSize);
      const svg = e.ownerSVGElement;
      if (svg) size *= svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
      return size;
    });
  const beyond = [...page.querySelectorAll("body *")].filter(e =>
    !e.closest(".scroll, svg, head") && e.getBoundingClientRect().right > width + 1);
  return {
    scroll: page.documentElement.scrollWidth, smallest: Math.min(...small),
    beyond: beyond.map(e => e.tagName + "." + e.className),
    ink: style(page.body).color, paper: style(page.body).backgroundColor,
    faint: style(page.querySelector(".faint")).color,
    charts: [...page.querySelectorAll("svg")].map(e => {
      const r = e.getBoundingClientRect(); return [r.width, r.height]; }),
    areas: [...page.querySelectorAll("svg.chart")].map(e => e.querySelectorAll("path").length),
    tables: [...page.querySelectorAll(".scroll")].map(e => e.scrollWidth - e.clientWidth),
  };
}
(async () => {
  for (const width of [360, 390, 1280]) results[width] = await look(width);
  document.body.textContent = JSON.stringify(results);
  document.title = "done";
})();
</script>"""


def looked_at(page, folder, dark):
    """What a browser makes of a page at three widths, and which addresses it asked for."""
    text = json.dumps(page.read_text()).replace("</", "<\\/")
    probe, log = folder / "probe.html", folder / "net.json"
    probe.write_text(PROBE.replace("PAGE", text))
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         f"--user-data-dir={folder / 'profile'}", "--disable-background-networking",
         f"--blink-settings=preferredColorScheme={0 if dark else 1}", f"--log-net-log={log}",
         "--virtual-time-budget=20000", "--window-size=1300,900", "--dump-dom", probe.as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    body = re.search(r"<body[^>]*>(.*)</body>", done.stdout, re.DOTALL)[1]
    asked = re.findall(r'"url":"(https?://[^"]+)"', log.read_text())
    return json.loads(html.unescape(body)), asked


def luminance(colour):
    """Of a colour as WCAG 2 has it."""
    parts = [int(n) / 255 for n in re.findall(r"\d+", colour)[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(a, b):
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@needs_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_browser_shows_it(page, tmp_path, dark):
    found, asked = looked_at(page, tmp_path, dark)
    assert not [url for url in asked if not re.search(r"google|gstatic|chrome", url)]
    assert set(found) == {"360", "390", "1280"}
    for width, seen in found.items():
        assert seen["scroll"] <= int(width) and seen["beyond"] == []  # nothing is cut off
        assert seen["smallest"] >= 12  # pixels: readable without zooming
        assert (luminance(seen["paper"]) < 0.1) is dark
        assert contrast(seen["ink"], seen["paper"]) > 10
        assert contrast(seen["faint"], seen["paper"]) > 4.5
        assert len(seen["charts"]) == 6 and all(w > 200 and h > 40 for w, h in seen["charts"])
        assert all(count >= 4 for count in seen["areas"])
        assert max(seen["tables"]) == 0 or int(width) < 1000


def test_a_report_leaves_nothing_behind():
    with torch.devices.report("a block") as run:
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    assert current_executor() is None and engine.anomaly[0] is None
    assert run.steps == 3 and run.fused.after <= run.fused.before and run.fused.stopped is None
    assert {kernel.device for kernel in run.kernels} == {"cpu"}
    counts = {kernel.name: kernel.count for kernel in run.kernels}
    assert counts["affine"] == 6
    (parts,) = run.models.values()
    assert [(part.path, part.bytes) for part in parts] == [
        ("model[0]", {"cpu": 80}), ("model[2]", {"cpu": 20}),
    ]  # fmt: skip
    text = run.to_html()
    assert "<h1>a block</h1>" in text and "Nothing was allocated on a GPU." in text


def test_an_error_is_on_the_page(tmp_path):
    with pytest.raises(ZeroDivisionError), torch.devices.report("<wrong>") as run:
        torch.ones(2) + 1
        raise ZeroDivisionError("a < b")
    text = run.to_html()
    assert "<h1>&lt;wrong&gt;</h1>" in text and "ZeroDivisionError: a &lt; b" in text
    path = tmp_path / "page.html"
    code = "import torch; torch.ones(10**6, device='cuda')"
    done = subprocess.run(
        [sys.executable, "-m", "ember", "run", "--gpus", "1x1MiB", f"--report={path}", "-c", code],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1 and "OutOfMemoryError" in done.stderr
    assert "OutOfMemoryError: CUDA out of memory. Tried to allocate 3.81 MiB" in path.read_text()


def test_parts_of_a_model():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))
            self.layers = nn.ModuleList(nn.Linear(1, 1) for _ in range(2))
            self.empty = nn.ReLU()

    parts = list(parts_of(Odd(), "odd"))
    assert [(p.path, p.kind, p.bytes) for p in parts] == [
        ("odd", "parameters", {"cpu": 12}),
        ("odd.layers[0]", "Linear", {"cpu": 8}),
        ("odd.layers[1]", "Linear", {"cpu": 8}),
    ]
    many = nn.Sequential(*(nn.Linear(1, 1) for _ in range(100)))
    assert [p.path for p in parts_of(many, "many")] == ["many"]
