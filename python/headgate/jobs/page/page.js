// Draws the report on a job. All texts of servers and inputs become text nodes: nothing is parsed as HTML.
"use strict";
(() => {
  const HEIGHT = 220;
  const SHOWN_HOSTS = 20;
  const POLL_MS = 2000;
  const POLL_IDLE_MS = 10000;
  const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
  const OUTCOMES = {
    "2xx": "--green", "3xx": "--blue", "4xx": "--amber", "5xx": "--red", error: "--violet", "1xx": "--teal",
    other: "--grey",
  };
  const PALETTE = ["--blue", "--amber", "--teal", "--violet", "--pink", "--green", "--red", "--grey"];
  const DASHES = [[], [8, 4], [2, 3]];
  const MAX_DASHED_POINTS = 1000;
  const POWERS_OF_2 = Array.from({ length: 50 }, (_, power) => 2 ** power);

  const count = (number) =>
    number == null ? "–" : number.toLocaleString("en-US", { maximumFractionDigits: Math.abs(number) < 10 ? 2 : 0 });
  const share = (number) => (number == null ? "–" : `${Math.round(number * 100)} %`);
  const latency = (us) => {
    if (us == null) return "–";
    if (us < 1e3) return `${count(Math.round(us))} µs`;
    return us < 1e6 ? `${count(us / 1e3)} ms` : `${count(us / 1e6)} s`;
  };
  const size = (bytes) => {
    if (bytes == null) return "–";
    const unit = Math.min(Math.max(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), 0), UNITS.length - 1);
    return `${count(bytes / 1024 ** unit)} ${UNITS[unit]}`;
  };
  const moment = (s) => (s == null ? "–" : new Date(s * 1e3).toISOString().replace("T", " ").slice(0, 19));

  const PLOTS = [
    {
      key: "rows", title: "Rows per second", format: count,
      series: (points) => [
        { label: "succeeded", values: points.succeeded, color: "--blue" },
        { label: "failed", values: points.failed, color: "--red" },
        { label: "retried attempts", values: points.retried, color: "--amber" },
      ],
    },
    {
      key: "latency", title: "Latency of last attempts", format: latency, distr: 3,
      series: (points) => [
        { label: "p99", values: points.p99, color: "--red" },
        { label: "p90", values: points.p90, color: "--amber" },
        { label: "p50", values: points.p50, color: "--blue" },
      ],
    },
    {
      key: "outcomes", title: "Rows per second by status", format: count, distr: 4,
      series: (points) => Object.entries(points.outcomes).map(([outcome, values]) => (
        { label: outcome === "error" ? "no response" : outcome, values, color: OUTCOMES[outcome] ?? "--grey" }
      )),
    },
    {
      key: "bottleneck", title: "Bottleneck", format: share, stacked: true,
      series: (points) => Object.entries(points.bottlenecks).map(([kind, values], index) => (
        { label: kind.replaceAll("_", " "), values, color: PALETTE[index % PALETTE.length] }
      )),
    },
    {
      key: "in_flight", title: "Requests in flight", format: count,
      series: (points) => [
        { label: "in flight", values: points.in_flight, color: "--blue" },
        { label: "limit", values: points.concurrency, color: "--grey" },
      ],
    },
    {
      key: "received", title: "Received per second", format: size, steps: POWERS_OF_2,
      series: (points) => [{ label: "bodies", values: points.received, color: "--teal" }],
    },
  ];

  const element = (name, attributes, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes ?? {})) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // A table whose columns are [title, kind], where the kind is "text" or "number".
  const table = (title, columns, rows, isShown = true) => {
    const cell = (value, index, name) => {
      const made = element(name, { class: columns[index][1] }, value);
      if (name === "th") made.setAttribute("scope", "col");
      else if (columns[index][1] === "text") made.setAttribute("dir", "auto");
      return made;
    };
    const head = element("tr", {}, ...columns.map(([text], index) => cell(text, index, "th")));
    const body = rows.map((row) => element("tr", {}, ...row.map((value, index) => cell(value, index, "td"))));
    const made = element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
    if (isShown) made.prepend(element("caption", {}, title));
    return element("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": title }, made);
  };

  const facts = (pairs) =>
    element("dl", { class: "facts" }, ...pairs.flatMap(([name, value]) => [
      element("dt", {}, name), element("dd", { dir: "auto" }, value),
    ]));

  const failures = ({ causes, more }) => {
    if (!causes.length) return [element("p", {}, "No committed row has failed.")];
    const shown = causes.map(({ cause, rows, about, examples }) => {
      const made = element("div", { class: "cause" }, element("h3", {}, `${cause}: ${rows}`));
      if (about) made.append(element("p", { class: "faint" }, about));
      if (examples.length) made.append(element("ul", {}, ...examples.map((text) => element("li", { dir: "auto" }, text))));
      return made;
    });
    return more ? [...shown, element("p", { class: "faint" }, more)] : shown;
  };

  const commands = (pairs) =>
    pairs.flatMap(([why, command]) => [element("p", {}, why), element("pre", {}, element("code", {}, command))]);

  const runs = (rows) => {
    const columns = [["command", "text"], ["started", "text"], ["last commit", "text"], ["rows", "number"], ["end", "text"]];
    return rows.length ? [table("Runs that committed results", columns, rows, false)] : [element("p", {}, "No run has committed results yet.")];
  };

  // A section that is drawn anew when its content has changed.
  const section = (root, title, draw) => {
    const body = element("div", {});
    root.append(element("section", {}, element("h2", {}, title), body));
    let drawn = null;
    return (content) => {
      const now = JSON.stringify(content);
      if (now !== drawn) body.replaceChildren(...[draw(content)].flat());
      drawn = now;
    };
  };

  const hosts = (root) => {
    const input = element("input", { type: "search", autocomplete: "off" });
    const note = element("p", { class: "faint" });
    const body = element("div", { class: "hosts" });
    root.append(element("section", {}, element("h2", {}, "Hosts"), note, element("label", {}, "Find a host ", input), body));
    const columns = [
      ["host", "text"], ["rows", "number"], ["failed", "number"], ["retries", "number"],
      ["mean time", "number"], ["max", "number"],
    ];
    let content = { rows: [], note: "" };
    const draw = () => {
      const wanted = input.value.trim().toLowerCase();
      const found = content.rows.filter(([host]) => host.toLowerCase().includes(wanted));
      const ranked = (title, by) => {
        const most = found.filter((row) => row[by] > 0).sort((a, b) => b[by] - a[by]).slice(0, SHOWN_HOSTS);
        if (!most.length) return element("p", {}, `${title}: none among ${count(content.rows.length)} hosts`);
        const cells = most.map(([host, rows, failed, retries, mean, max]) => (
          [host, count(rows), count(failed), count(retries), latency(mean), latency(max)]
        ));
        return table(title, columns, cells);
      };
      body.replaceChildren(ranked("Hosts with the most failed rows", 2), ranked("Slowest hosts", 4));
    };
    input.addEventListener("input", draw);
    let drawn = null;
    return (now) => {
      const text = JSON.stringify(now);
      if (text === drawn) return;
      drawn = text;
      content = now;
      note.textContent = now.note;
      draw();
    };
  };

  const times = (_plot, splits, _axis, _space, step) => splits.map((s, index) => {
    const text = new Date(s * 1e3).toISOString();
    if (step >= 86400) return text.slice(5, 10);
    const time = step >= 60 ? text.slice(11, 16) : step >= 1 ? text.slice(11, 19) : text.slice(14, 23);
    return index === 0 && step >= 60 ? `${time}\n${text.slice(5, 10)}` : time;
  });

  const decades = (_plot, _axis, _min, max) => {
    const splits = [0];
    for (let power = 1; power <= max; power *= 10) splits.push(power);
    return splits;
  };

  const stacked = (lists) => {
    const sums = [];
    for (const list of lists) {
      const below = sums.at(-1);
      sums.push(list.map((value, index) => (value == null ? null : value + (below ? below[index] : 0))));
    }
    return sums;
  };

  // Draws one plot into a figure, and returns what updates it.
  const plot = (root, spec, state) => {
    const box = element("div", { class: "plot", role: "group", tabindex: "0" });
    const caption = element("figcaption", {});
    const figures = element("div", {});
    const details = element("details", {}, element("summary", {}, "Figures as a table"), figures);
    root.append(element("figure", {}, element("h3", {}, spec.title), box, caption, details));
    let drawn = null;
    let labels = "";
    let content = null;

    const options = (series) => ({
      width: Math.max(box.clientWidth, 120),
      height: HEIGHT,
      padding: [null, 20, null, null],
      tzDate: (s) => uPlot.tzDate(new Date(s * 1e3), "Etc/UTC"),
      cursor: { y: false, sync: { key: "report" }, drag: { x: true, y: false } },
      scales: {
        y: spec.distr === 3 ? { distr: 3 }
          : { distr: spec.distr ?? 1, range: (_plot, _min, max) => [0, spec.stacked ? 1 : Math.max(max * 1.05, 1e-3)] },
      },
      axes: [
        { stroke: () => colour("--faint"), grid: { stroke: () => colour("--grid") }, ticks: { show: false }, values: times, space: 56 },
        {
          stroke: () => colour("--faint"), grid: { stroke: () => colour("--grid") }, ticks: { show: false }, size: 64,
          values: (_plot, splits) => splits.map((value) => (value == null ? "" : spec.format(value))),
          ...(spec.steps ? { incrs: spec.steps } : {}),
          ...(spec.distr === 4 ? { splits: decades, filter: (_plot, splits) => splits } : {}),
        },
      ],
      series: [
        { label: "UTC", value: (_plot, value) => moment(value) },
        ...series.map(({ label, color, values }, index) => ({
          label,
          stroke: () => colour(color),
          fill: spec.stacked ? () => colour(color) : undefined,
          width: spec.stacked ? 0 : 1.5,
          dash: spec.stacked || values.length > MAX_DASHED_POINTS ? [] : DASHES[index % DASHES.length],
          points: { show: false },
          paths: uPlot.paths.stepped({ align: -1 }),
          value: (_plot, _sum, _series, at) => (at == null ? "–" : spec.format(content.raw[index][at])),
        })),
      ],
      bands: spec.stacked ? series.slice(1).map((_, index) => ({ series: [index + 2, index + 1] })) : [],
      hooks: { draw: [(made) => markStarts(made, state.starts)] },
    });

    const make = (series, data) => {
      drawn?.destroy();
      drawn = new uPlot(options(series), data, box);
    };
    const bounds = () => ({ min: drawn.data[0][0], max: drawn.data[0].at(-1) });

    box.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 }[event.key];
      if (!drawn || (step == null && event.key !== "Escape")) return;
      event.preventDefault();
      if (step == null) return drawn.setScale("x", bounds());
      const last = drawn.data[0].length - 1;
      const at = Math.min(Math.max((drawn.cursor.idx ?? (step > 0 ? -1 : last + 1)) + step, 0), last);
      drawn.setCursor({ left: drawn.valToPos(drawn.data[0][at], "x"), top: 1 });
    });
    new ResizeObserver(() => {
      if (drawn && box.clientWidth && drawn.width !== box.clientWidth) drawn.setSize({ width: box.clientWidth, height: HEIGHT });
    }).observe(box);

    return {
      update({ points, coarse, about }) {
        const series = spec.series(points);
        const raw = series.map(({ values }) => values);
        const data = [points.at, ...(spec.stacked ? stacked(raw) : raw)];
        const now = series.map(({ label }) => label).join("\n");
        content = { series, raw, data };
        caption.textContent = about[spec.key] ?? "";
        box.setAttribute("aria-label", `${spec.title}: ${caption.textContent}`);
        const columns = [["UTC", "text"], ...spec.series(coarse).map(({ label }) => [label, "number"])];
        const lists = spec.series(coarse).map(({ values }) => values);
        const rows = coarse.at.map((at, index) => [moment(at), ...lists.map((list) => spec.format(list[index]))]);
        figures.replaceChildren(table(`${spec.title}, in up to ${rows.length} intervals`, columns, rows));
        if (!points.at.length) return;
        if (!drawn || labels !== now) {
          labels = now;
          make(series, data);
        } else {
          const { min, max } = bounds();
          const isZoomed = drawn.scales.x.min > min || drawn.scales.x.max < max;
          drawn.setData(data, !isZoomed);
          if (isZoomed) drawn.redraw();
        }
      },
      redraw() {
        if (drawn) make(content.series, content.data);
      },
    };
  };

  // Marks where runs began.
  const markStarts = (made, starts) => {
    const { ctx, bbox } = made;
    ctx.save();
    ctx.strokeStyle = colour("--faint");
    ctx.setLineDash([3, 3]);
    for (const start of starts) {
      const x = Math.round(made.valToPos(start, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  };

  const first = JSON.parse(document.getElementById("content").textContent);
  const root = document.getElementById("report");
  const headline = element("p", { class: "headline", dir: "auto" });
  const asOf = element("p", { class: "faint" });
  if (first.is_whole) root.append(element("header", {}, element("h1", { dir: "auto" }, first.title), headline, asOf));
  const state = { starts: first.starts };
  const parts = {};
  const nothing = element("p", {}, "Nothing was recorded over time yet.");
  if (first.is_whole) {
    parts.commands = section(root, "How to continue", commands);
    parts.came = section(root, "Results", facts);
    parts.failures = section(root, "Why rows failed", failures);
  }
  const grid = element("div", { class: "plots" });
  root.append(element("section", {}, ...(first.is_whole ? [element("h2", {}, "Over time")] : []), nothing, grid));
  const plots = PLOTS.map((spec) => plot(grid, spec, state));
  if (first.is_whole) {
    parts.hosts = hosts(root);
    parts.requested = section(root, "What was requested", facts);
    parts.runs = section(root, "Runs", runs);
  }

  const update = (content) => {
    state.starts = content.starts;
    headline.textContent = content.headline;
    asOf.textContent = `As of ${content.made_at}`;
    nothing.hidden = content.points.at.length > 0;
    grid.hidden = !nothing.hidden;
    for (const [key, draw] of Object.entries(parts)) draw(content[key]);
    for (const each of plots) each.update(content);
  };
  update(first);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.forEach((each) => each.redraw()));

  const poll = async () => {
    let wait = POLL_IDLE_MS;
    try {
      if (!document.hidden) {
        const response = await fetch("content.json", { cache: "no-store" });
        if (!response.ok) throw new Error(await response.text());
        const content = await response.json();
        update(content);
        if (content.is_running) wait = POLL_MS;
      } else {
        wait = POLL_MS;
      }
    } catch (error) {
      const why = error instanceof TypeError ? "the server of this page doesn't respond" : error.message;
      asOf.textContent = `${asOf.textContent.split(";")[0]}; ${why}`;
    }
    setTimeout(poll, wait);
  };
  if (first.is_live) setTimeout(poll, first.is_running ? POLL_MS : POLL_IDLE_MS);
})();
