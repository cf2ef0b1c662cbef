"use strict";
// Axes on a canvas, and charts of lines with bands whose values stand under the pointer, or under the arrow keys.

const DASHES = [[], [7, 4], [2, 3]]; // with eight colours 24 looks, each of which a border can show in the legend
const COLORS = 8;
const redraws = []; // everything on a canvas, drawn again when the page turns dark or light

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Call draw(context, width, height), in CSS pixels, now and whenever the canvas has another size.
function drawn(canvas, draw) {
  function again() {
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width || !height) return;
    const density = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * density);
    canvas.height = Math.round(height * density);
    const context = canvas.getContext("2d");
    context.setTransform(density, 0, 0, density, 0, 0);
    context.font = "12px system-ui, sans-serif";
    draw(context, width, height);
  }
  new ResizeObserver(again).observe(canvas);
  redraws.push(again);
  return again;
}

function finite(values) {
  return values.filter((value) => value !== null && value !== undefined);
}

// Smallest and largest, without spreading: there may be hundreds of thousands.
function extent(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value !== null && value < low) low = value;
    if (value !== null && value > high) high = value;
  }
  return [low, high];
}

// As in the figures: positive but for a few zeros, over one and a half powers of ten or more.
function spansDecades(values) {
  const positive = values.filter((value) => value > 0);
  const [low, high] = extent(positive);
  return positive.length > 1 && positive.length >= 0.8 * values.length && !values.some((value) => value < 0) &&
    Math.log10(high / low) >= 1.5;
}

function ticksBetween(low, high, log) {
  if (log) {
    const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
    const step = Math.max(1, Math.ceil((last - first) / 6));
    const found = [];
    for (let power = first; power <= last; power += step) {
      for (const factor of last - first <= 2 ? [1, 2, 5] : [1]) found.push(factor * 10 ** power);
    }
    return found.filter((value) => value >= low * 0.999 && value <= high * 1.001);
  }
  const rough = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, k) => Number(((first + k) * step).toPrecision(12)));
}

function short(value) {
  const size = Math.abs(value);
  if (size >= 1e9 || (size > 0 && size < 1e-3)) return value.toExponential(0).replace("e+", "e");
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  return size >= 1e4 ? `${Number((value / 1e3).toPrecision(3))}k` : String(Number(value.toPrecision(4)));
}

// Grid, ticks and names of two axes; returns what turns values into pixels, with the inside as clip.
function axes(context, width, height, { x, y, log = false, xLabel, yTicks = null }) {
  const [left, right, top, bottom] = [yTicks ? 74 : 52, width - 12, 10, height - 36];
  const scaled = (value) => (log ? Math.log10(Math.max(value, y[0] / 10)) : value);
  const [low, high] = [scaled(y[0]), scaled(y[1])];
  const px = (value) => left + ((value - x[0]) / (x[1] - x[0] || 1)) * (right - left);
  const py = (value) => bottom - ((scaled(value) - low) / (high - low || 1)) * (bottom - top);
  context.clearRect(0, 0, width, height);
  context.strokeStyle = style("--grid");
  context.fillStyle = style("--faint");
  context.lineWidth = 1;
  context.textBaseline = "middle";
  context.textAlign = "right";
  const marks = yTicks || ticksBetween(y[0], y[1], log).map((value) => [value, short(value)]);
  for (const [value, text] of marks) {
    line(context, [[left, py(value)], [right, py(value)]]);
    context.fillText(text.length > 10 ? `${text.slice(0, 9)}…` : text, left - 6, py(value));
  }
  context.textBaseline = "top";
  context.textAlign = "center";
  for (const value of ticksBetween(x[0], x[1], false)) {
    line(context, [[px(value), bottom], [px(value), bottom + 4]]);
    context.fillText(short(value), Math.min(Math.max(px(value), left + 8), right - 8), bottom + 6);
  }
  context.fillText(xLabel, (left + right) / 2, bottom + 21);
  return { px, py, left, right, top, bottom };
}

function line(context, points) {
  context.beginPath();
  points.forEach(([x, y], place) => (place ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.stroke();
}

function inside(context, frame, draw) {
  context.save();
  context.beginPath();
  context.rect(frame.left, frame.top - 3, frame.right - frame.left, frame.bottom - frame.top + 6);
  context.clip();
  draw();
  context.restore();
}

// The place of the value nearest to x; the values ascend.
function nearest(values, x) {
  let [low, high] = [0, values.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (values[middle] < x) low = middle;
    else high = middle;
  }
  return Math.abs(values[low] - x) <= Math.abs(values[high] - x) ? low : high;
}

// The names of all lines in one place, those of one look together: a click on one hides its lines in every chart.
function legend(lines, hidden, again) {
  const looks = new Map();
  for (const one of lines) {
    const look = [one.color, one.dash % DASHES.length, one.failed].join();
    looks.set(look, { ...one, names: (looks.get(look) || { names: new Set() }).names.add(one.label) });
  }
  return element("div", { class: "legend" }, ...[...looks.values()].map(({ color, dash, failed, names }) => {
    const swatch = element("i");
    swatch.style.borderTopColor = `var(--c${color})`;
    swatch.style.borderTopStyle = ["solid", "dashed", "dotted"][failed ? 2 : dash % DASHES.length];
    const button = element("button", { type: "button", "aria-pressed": "true", title: "show or hide" }, swatch, [...names].join(", "));
    button.addEventListener("click", () => {
      for (const name of names) if (!hidden.delete(name)) hidden.add(name);
      button.setAttribute("aria-pressed", String([...names].every((name) => !hidden.has(name))));
      again();
    });
    return button;
  }));
}

const ALONE = 0.25; // the share of an axis in which all curves but one lie: that one is cropped

// The ends of an axis for lines and levels, and the line that would press all others together.
function fitted(lines, levels) {
  const valued = lines.map((one) => finite([...one.mean, ...(one.low || []), ...(one.high || [])]));
  const fixed = levels.map((one) => one.value);
  const log = spansDecades([...valued.flat(), ...fixed]);
  const span = (some) => {
    const [low, high] = extent(log ? some.filter((value) => value > 0) : some);
    return log ? Math.log10(high / low) : high - low;
  };
  const whole = span([...valued.flat(), ...fixed]);
  const others = (place) => [...valued.filter((_, other) => other !== place).flat(), ...fixed];
  const far = lines.length > 2 ? lines.findIndex((_, place) => span(others(place)) < ALONE * whole) : -1;
  return { values: far < 0 ? [...valued.flat(), ...fixed] : others(far), beyond: far < 0 ? null : lines[far] };
}

// Lines: label, color, dash, x, mean, and where there is a band low and high. Levels: label, value.
function chart(title, lines, levels, xLabel, hidden = new Set()) {
  const canvas = element("canvas", { tabindex: 0, role: "slider", "aria-label": `${title}, against ${xLabel}`, "aria-valuemin": 0 });
  const readout = element("p", { class: "readout" });
  let label = xLabel;
  let at = null; // the x that is looked at
  let shown = null; // the ends of the horizontal axis if it shows a part
  let dragged = null; // the pixels between which a part is being chosen
  const color = (one) => style(`--c${one.color}`);
  const visible = () => lines.filter((one) => !hidden.has(one.label));

  // A line without its values beyond the part that is shown.
  function within(one) {
    if (!shown) return one;
    const cut = (column) => column && column.map((value, place) => (one.x[place] >= shown[0] && one.x[place] <= shown[1] ? value : null));
    return { ...one, mean: one.mean.length > 1 ? cut(one.mean) : one.mean, low: cut(one.low), high: cut(one.high) };
  }

  function whole() {
    const x = extent(visible().flatMap((one) => finite(one.x)));
    return Number.isFinite(x[0]) ? x : [0, 1];
  }

  function zoom(part) {
    const [first, last] = whole();
    shown = part && [Math.max(part[0], first), Math.min(part[1], last)];
    if (shown && (shown[0] >= shown[1] || (shown[0] === first && shown[1] === last))) shown = null;
    look(at);
  }

  function range() {
    const steady = visible().filter((one) => !one.failed);
    const held = steady.length ? steady : visible();
    const { values, beyond } = fitted(held.map(within), levels);
    const log = spansDecades(values);
    let [low, high] = extent(log ? values.filter((value) => value > 0) : values);
    if (!values.length) [low, high] = [0, 1];
    if (log) return { y: [low / 1.15, high * 1.15], log, beyond };
    if (low >= 0 && low <= 0.5 * high) low = 0;
    const margin = 0.05 * (high - low) || 0.5 * Math.abs(high) || 0.5;
    return { y: [low === 0 ? 0 : low - margin, high + margin], log, beyond };
  }

  const draw = drawn(canvas, (context, width, height) => {
    const x = shown || whole();
    const frame = axes(context, width, height, { x, ...range(), xLabel: label });
    inside(context, frame, () => {
      for (const [place, one] of visible().entries()) {
        const at = (column) => one.x.map((value, place) => [value, column[place]]).filter(([a, b]) => a !== null && b !== null).map(([a, b]) => [frame.px(a), frame.py(b)]);
        context.strokeStyle = context.fillStyle = color(one);
        if (one.low) {
          context.globalAlpha = 0.17;
          context.beginPath();
          [...at(one.low), ...at(one.high).reverse()].forEach(([a, b], place) => (place ? context.lineTo(a, b) : context.moveTo(a, b)));
          context.fill();
          context.globalAlpha = 1;
        }
        // Of curves that coincide the lower ones are wider, and seen on both sides of those above.
        context.lineWidth = one.failed ? 1.2 : 2 + Math.min(visible().length - 1 - place, 4);
        context.setLineDash(one.failed ? [3, 3] : DASHES[one.dash % DASHES.length]);
        const points = at(one.mean);
        if (points.length === 1) points.splice(0, 1, [frame.left, points[0][1]], [frame.right, points[0][1]]); // measured once
        line(context, points);
      }
      context.setLineDash([2, 4]);
      context.lineWidth = 1.2;
      context.strokeStyle = style("--faint");
      for (const { value } of levels) line(context, [[frame.left, frame.py(value)], [frame.right, frame.py(value)]]);
      context.setLineDash([]);
      if (at !== null) {
        line(context, [[frame.px(at), frame.top], [frame.px(at), frame.bottom]]);
        for (const one of visible()) {
          const place = nearest(one.x, at);
          if (one.mean[place] === null) continue;
          context.fillStyle = color(one);
          context.beginPath();
          context.arc(frame.px(one.x[place]), frame.py(one.mean[place]), 4, 0, 7);
          context.fill();
        }
      }
    });
    if (dragged) {
      context.globalAlpha = 0.15;
      context.fillStyle = style("--faint");
      context.fillRect(dragged[0], frame.top, dragged[1] - dragged[0], frame.bottom - frame.top);
      context.globalAlpha = 1;
    }
    canvas.frame = { ...frame, x };
  });

  function look(x) {
    at = x;
    const said = visible().map((one) => {
      const place = nearest(one.x, at);
      const band = one.low && one.low[place] !== null ? ` (${readable(one.low[place])} to ${readable(one.high[place])})` : "";
      const value = `${readable(one.mean[place])}${band}`;
      return `${one.label} ${visible().length > 3 ? readable(one.mean[place]) : value}`; // of many lines the means alone
    });
    const fixed = levels.map((one) => `${one.label} ${readable(one.value)}`);
    const here = at === null ? [] : [`${readable(at)} ${label}`];
    const { beyond } = range();
    const cropped = beyond ? [`beyond this axis: ${beyond.label}, at ${readable(finite(beyond.mean).at(-1))} last`] : [];
    const zoomed = shown ? [`${readable(shown[0])} to ${readable(shown[1])} ${label} shown: a double click or Escape shows all`] : [];
    readout.textContent = [...here, ...(at === null ? [] : said), ...fixed.map((text) => `dotted: ${text}`), ...cropped, ...zoomed].join("; ");
    const text = at === null ? "" : [...here, ...said, ...fixed].join("; ");
    canvas.setAttribute("aria-valuetext", text || "no value chosen");
    canvas.setAttribute("aria-valuenow", at === null ? 0 : at);
    draw();
  }

  function under(pixel) {
    const { left, right, x } = canvas.frame;
    return x[0] + ((pixel - left) / (right - left)) * (x[1] - x[0]);
  }

  canvas.addEventListener("pointermove", (event) => {
    const longest = visible().reduce((a, b) => (b.x.length > (a ? a.x.length : 0) ? b : a), null);
    if (!longest || !canvas.frame) return;
    if (dragged) dragged[1] = event.offsetX;
    look(longest.x[nearest(longest.x, under(event.offsetX))]);
  });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch" || event.button || !canvas.frame) return; // a finger scrolls the page
    canvas.setPointerCapture(event.pointerId);
    dragged = [event.offsetX, event.offsetX];
  });
  canvas.addEventListener("pointerup", () => {
    const ends = dragged && dragged.map(under).sort((a, b) => a - b);
    const chosen = dragged && Math.abs(dragged[1] - dragged[0]) > 6; // less is a click
    dragged = null;
    if (chosen) zoom(ends);
    else draw();
  });
  canvas.addEventListener("pointercancel", () => { dragged = null; draw(); });
  canvas.addEventListener("dblclick", () => zoom(null));
  canvas.addEventListener("keydown", (event) => {
    const longest = visible().reduce((a, b) => (b.x.length > (a ? a.x.length : 0) ? b : a), null);
    const last = longest ? longest.x.length - 1 : -1;
    const half = { "+": 0.25, "=": 0.25, "-": 1 }[event.key]; // half as much as before, or twice as much
    if (event.key === "Escape") zoom(null);
    if (half && canvas.frame) {
      const [low, high] = canvas.frame.x;
      const middle = at === null ? (low + high) / 2 : at;
      zoom([middle - half * (high - low), middle + half * (high - low)]);
    }
    const here = at === null || !longest ? -1 : nearest(longest.x, at);
    const to = { ArrowLeft: here - 1, ArrowDown: here - 1, ArrowRight: here + 1, ArrowUp: here + 1, Home: 0, End: last, PageUp: here + 10, PageDown: here - 10 }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    look(longest.x[Math.min(Math.max(to, 0), last)]);
  });

  function show(newLines, newLabel = label) {
    lines = newLines;
    if (label !== newLabel) shown = null;
    label = newLabel;
    canvas.setAttribute("aria-label", `${title}, against ${label}`);
    canvas.setAttribute("aria-valuemax", extent(lines.flatMap((one) => finite(one.x)))[1]);
    look(null);
  }

  const heading = element("h3", {}, title);
  show(lines);
  return {
    element: element("section", { class: "card" }, heading, canvas, readout),
    show,
    look,
    rename: (text) => { title = heading.textContent = text; },
  };
}
