"use strict";
// The network over the recorded rounds, and the node that is chosen in it: its curve and what it has learned.

const VIRIDIS = ["#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725"];
const SHADES = 24;
const LARGEST = 15; // pixels, the radius of a node
const CROWD = 400; // nodes; more are smaller and have no rims
const FITTING = 4; // letters of a name that fit into a node

function mixed(stops, share) {
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const [low, high] = [stops[Math.floor(place)], stops[Math.ceil(place)]];
  const part = (color, k) => parseInt(color.slice(1 + 2 * k, 3 + 2 * k), 16);
  const parts = [0, 1, 2].map((k) => Math.round(part(low, k) + (part(high, k) - part(low, k)) * (place % 1)));
  return `rgb(${parts.join(",")})`;
}

// One scale for all rounds, so that colours can be held against one another: the middle 98% of the values.
function scaleOf(column) {
  const values = Float64Array.from(column.values.flat().filter((value) => value !== null)).sort();
  const quantile = (share) => values[Math.round(share * (values.length - 1))];
  let [low, high] = [quantile(0.01), quantile(0.99)];
  const log = low > 0 && high / low > 30;
  if (!values.length) [low, high] = [0, 1]; // measured in rounds that are left out only
  if (low === high) high = low + (Math.abs(low) || 1);
  const share = (value) => (log ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low));
  return { low, high, log, share: (value) => Math.min(Math.max(share(value), 0), 1) };
}

function choice(label, columns, change) {
  const options = columns.map((column, place) => element("option", { value: place }, column.label));
  return element("label", {}, label, element("select", { onchange: (event) => change(columns[Number(event.target.value)]) }, ...options));
}

function network(data, functions, pick = []) {
  const { names, edges, rounds } = data;
  const scales = new Map([...data.node_columns, ...data.edge_columns].map((column) => [column, scaleOf(column)]));
  let nodeColumn = data.node_columns[0];
  let edgeColumn = data.edge_columns[0];
  let now = Math.max(rounds.length - 1, 0);
  let chosen = null;
  let pointed = null;
  let places = [];
  let radius = 5;

  const canvas = element("canvas", { class: "wide", role: "img" });
  const readout = element("p", { class: "readout" });
  const said = element("output", { for: "round" });
  const slider = element("input", { type: "range", id: "round", min: 0, max: Math.max(rounds.length - 1, 0), value: now, step: 1, oninput: () => go(Number(slider.value)) });
  const play = element("button", { type: "button", onclick: () => (timer ? stop() : start()) }, "Play");
  const nodeScale = element("div", { class: "scale" });
  const edgeScale = element("div", { class: "scale" });
  const chooser = element("select", { onchange: () => choose(chooser.value === "" ? null : Number(chooser.value)) },
    element("option", { value: "" }, "none"), ...names.map((name, place) => element("option", { value: place }, name)));
  const edgeStops = () => [style("--edge-low"), style("--edge-high")];
  const inside = names.every((name) => name.length <= FITTING); // longer names stand under their nodes
  const at = (column, place) => (column && column.values[now] ? column.values[now][place] : null);
  let timer = null;

  function arrange(width, height) {
    const [x, y] = [extent(data.x), extent(data.y)];
    const margin = LARGEST + (inside ? 8 : 22);
    const size = Math.min((width - 2 * margin) / (x[1] - x[0] || 1e-9), (height - 2 * margin) / (y[1] - y[0] || 1e-9));
    radius = Math.min(Math.max((data.diameter / 2) * size * Math.max(x[1] - x[0], y[1] - y[0]), 2.5), LARGEST);
    const middle = (range) => (range[0] + range[1]) / 2;
    places = names.map((_, k) => [width / 2 + (data.x[k] - middle(x)) * size, height / 2 - (data.y[k] - middle(y)) * size]);
  }

  const draw = drawn(canvas, (context, width, height) => {
    arrange(width, height);
    context.clearRect(0, 0, width, height);
    drawEdges(context);
    const scale = scales.get(nodeColumn);
    const labelled = names.length <= 60 && radius >= 8;
    const [rim, unknown] = [style("--faint"), style("--edge-none")]; // asked once: for each node it would take most of the time
    context.lineWidth = 1;
    context.textAlign = "center";
    context.textBaseline = inside ? "middle" : "top";
    places.forEach(([x, y], place) => {
      const value = at(nodeColumn, place);
      const share = value === null ? null : scale.share(value);
      context.fillStyle = share === null ? unknown : mixed(VIRIDIS, share);
      context.beginPath();
      context.arc(x, y, radius, 0, 7);
      context.fill();
      if (names.length <= CROWD) {
        context.strokeStyle = rim;
        context.stroke();
      }
      if (labelled) {
        context.fillStyle = !inside ? style("--text") : share === null || share > 0.55 ? "#000000" : "#ffffff";
        context.fillText(names[place], x, inside ? y : y + radius + 3);
      }
    });
    for (const [place, thick] of [[pointed, 2], [chosen, 4]]) {
      if (place === null) continue;
      context.strokeStyle = style("--text");
      context.lineWidth = thick;
      context.beginPath();
      context.arc(...places[place], radius + thick / 2, 0, 7);
      context.stroke();
    }
  });

  // All edges of a shade in one path: thousands of single strokes would not keep up with the slider.
  function drawEdges(context) {
    const bins = Array.from({ length: SHADES + 1 }, () => []);
    const scale = scales.get(edgeColumn);
    edges.forEach((ends, place) => {
      const value = at(edgeColumn, place);
      bins[value === null ? SHADES : Math.round(scale.share(value) * (SHADES - 1))].push(ends);
    });
    const thin = Math.min(1, Math.sqrt(400 / Math.max(edges.length, 1)));
    const stops = edgeStops();
    for (const place of [SHADES, ...Array(SHADES).keys()]) {
      const share = place / (SHADES - 1);
      context.strokeStyle = place === SHADES ? style("--edge-none") : mixed(stops, share);
      context.lineWidth = Math.max(0.5, thin * (place === SHADES ? 1.2 : 1.2 + 3.2 * share));
      context.beginPath();
      for (const [i, j] of bins[place]) {
        context.moveTo(...places[i]);
        context.lineTo(...places[j]);
      }
      context.stroke();
    }
  }

  function describe(box, label, column, stops) {
    box.hidden = !column;
    if (!column) return;
    const { low, high, log } = scales.get(column);
    const bar = element("i");
    bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
    const texts = [`${label}: ${readable(low)}`, `${readable(high)}${log ? ", logarithmic" : ""}`].map((text) => element("span", {}, text));
    box.replaceChildren(texts[0], bar, texts[1]);
  }

  function tell() {
    const round = rounds.length ? `round ${readable(rounds[now])}` : "no round was measured";
    said.textContent = round;
    slider.setAttribute("aria-valuetext", round);
    const values = nodeColumn && nodeColumn.values[now] ? finite(nodeColumn.values[now]) : [];
    const range = values.length ? `, ${nodeColumn.label} from ${extent(values).map(readable).join(" to ")}` : "";
    canvas.setAttribute("aria-label", `Network of ${names.length} nodes and ${edges.length} edges, ${round}${range}`);
    const place = pointed === null ? chosen : pointed;
    readout.textContent = place === null
      ? "Point at a node for its values; click it, or choose it by name, for its curve."
      : [`node ${names[place]}`, ...data.node_columns.map((column) => `${column.label} ${readable(at(column, place))}`)].join("; ");
    describe(nodeScale, "nodes", nodeColumn, VIRIDIS);
    describe(edgeScale, "edges", edgeColumn, edgeStops());
  }

  const panel = nodePanel(data, functions);

  function go(round) {
    now = round;
    slider.value = round;
    draw();
    tell();
    if (chosen !== null) panel.at(rounds[now]);
  }

  function choose(place) {
    chosen = place;
    chooser.value = place === null ? "" : place;
    panel.show(place, nodeColumn, rounds[now]);
    draw();
    tell();
  }

  function stop() {
    clearTimeout(timer);
    timer = null;
    play.textContent = "Play";
  }

  function start() {
    play.textContent = "Pause";
    if (now >= rounds.length - 1) go(0);
    const pause = Math.max(60, Math.min(400, 9000 / Math.max(rounds.length, 1)));
    const step = () => {
      if (now >= rounds.length - 1) return stop();
      go(now + 1);
      timer = setTimeout(step, pause);
    };
    timer = setTimeout(step, pause);
  }

  function under(event) {
    const distances = places.map(([x, y]) => Math.hypot(x - event.offsetX, y - event.offsetY));
    const [least] = extent(distances);
    return least <= Math.max(radius + 3, 12) ? distances.indexOf(least) : null;
  }

  canvas.addEventListener("pointermove", (event) => {
    const found = under(event);
    if (found === pointed) return;
    pointed = found;
    draw();
    tell();
  });
  canvas.addEventListener("pointerleave", () => { pointed = null; draw(); tell(); });
  canvas.addEventListener("click", (event) => choose(under(event)));
  redraws.push(tell);
  tell();

  const colours = [...pick];
  if (data.node_columns.length) colours.push(choice("Nodes by", data.node_columns, (column) => { nodeColumn = column; choose(chosen); }));
  if (data.edge_columns.length) colours.push(choice("Edges by", data.edge_columns, (column) => { edgeColumn = column; draw(); tell(); }));
  const controls = [play, element("label", { class: "slider" }, "Round", slider, said)];
  return element("section", { "aria-labelledby": "network" },
    element("h2", { id: "network" }, "Network"),
    rounds.length > 1 ? element("div", { class: "controls" }, ...controls) : said,
    element("div", { class: "controls" }, ...colours, element("label", {}, "Node", chooser)),
    element("div", { class: "network" }, element("div", { class: "card" }, canvas, nodeScale, edgeScale, readout), panel.element));
}

// The chosen node: its course beside the mean of all nodes, and its function after the last round.
function nodePanel(data, functions) {
  const box = element("div", { class: "node" }, element("p", { class: "faint" }, "No node is chosen."));
  const hidden = new Set();
  const course = chart("", [], [], "rounds", hidden);
  const learned = functions ? learnedPlot(functions) : null;

  function show(place, column, round) {
    if (place === null || !column) return box.replaceChildren(element("p", { class: "faint" }, "No node is chosen."));
    const mean = column.values.map((row) => {
      const known = finite(row);
      return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
    });
    const own = column.values.map((row) => row[place]);
    course.rename(`Node ${data.names[place]}: ${column.label}`);
    hidden.clear();
    course.element.querySelector(".legend")?.remove();
    const lines = [
      { label: "mean of the nodes", color: 6, dash: 1, x: data.rounds, mean },
      { label: `node ${data.names[place]}`, color: 0, dash: 0, x: data.rounds, mean: own },
    ];
    course.show(lines);
    course.element.append(legend(lines, hidden, () => course.look(null)));
    box.replaceChildren(course.element, ...(learned ? [learned.show(place, data.names[place])] : []));
    course.look(round);
  }

  return { element: box, show, at: course.look };
}

// A function of one input as a curve, of two as a plane; marks are the points of the dictionary.
function learnedPlot(functions) {
  const { bounds, size, classes, values, halves, unknown, points, truth } = functions;
  const canvas = element("canvas", { role: "img" });
  const heading = element("h3");
  const caption = element("p", { class: "faint" });
  let which = null;
  let node = 0;

  function curve(context, width, height) {
    const [low, high] = bounds[0];
    const xs = Array.from({ length: size }, (_, k) => low + ((high - low) * k) / (size - 1));
    const real = truth ? truth[truth.length === 1 ? 0 : node] : null;
    const half = halves && halves[which];
    const held = finite([...values[which], ...(real || [])]);
    const [least, most] = classes ? [-0.3, classes.length - 0.7] : extent(held);
    const widest = half ? Math.min(Math.max(...finite(half)), 0.75 * (most - least)) : 0; // no band dwarfs the curve
    const margin = classes ? 0 : widest + 0.08 * (most - least) || 0.5;
    const yTicks = classes ? classes.map((name, k) => [k, name]) : null;
    const frame = axes(context, width, height, { x: [low, high], y: [least - margin, most + margin], xLabel: functions.inputs[0], yTicks });
    inside(context, frame, () => {
      const trace = (ys) => line(context, xs.map((x, k) => [frame.px(x), ys[k]]).filter((pair) => pair[1] !== null).map(([x, y]) => [x, frame.py(y)]));
      if (half) {
        const side = (sign) => xs.map((x, k) => [frame.px(x), frame.py(values[which][k] + sign * half[k])]);
        context.beginPath();
        [...side(1), ...side(-1).reverse()].forEach(([x, y]) => context.lineTo(x, y));
        context.globalAlpha = 0.2;
        context.fillStyle = style("--c0");
        context.fill();
        context.globalAlpha = 1;
      }
      context.lineWidth = 2.2;
      context.strokeStyle = style("--c0");
      trace(values[which]);
      context.setLineDash([6, 4]);
      context.lineWidth = 1.6;
      context.strokeStyle = style("--text");
      if (real) trace(real);
      context.setLineDash([]);
      context.strokeStyle = style("--c5");
      for (const [x] of points[which]) line(context, [[frame.px(x), frame.bottom], [frame.px(x), frame.bottom - 8]]);
    });
    caption.textContent = [`${functions.target} against ${functions.inputs[0]}`, real && "dashed: the truth",
      half && `band: ${functions.level} of targets`,
      points[which].length && "ticks: the dictionary"].filter(Boolean).join("; ");
  }

  function plane(context, width, height) {
    const [x, y] = bounds;
    const frame = axes(context, width, height, { x, y, xLabel: functions.inputs[0] });
    const [least, most] = extent(values[which]);
    // Areas have colours of their own: they touch, and no dashes tell them apart as they do lines.
    const palette = (classes || []).map((_, k) => style(`--k${k % COLORS}`));
    const [wide, high] = [(frame.right - frame.left) / size, (frame.bottom - frame.top) / size];
    values[which].forEach((value, place) => {
      if (value === null) return;
      const [column, row] = [place % size, Math.floor(place / size)];
      context.fillStyle = classes ? palette[value] : mixed(VIRIDIS, (value - least) / (most - least || 1));
      context.globalAlpha = unknown ? 1 - 0.9 * unknown[which][place] : 1;
      const [left, right] = [column, column + 1].map((k) => Math.round(frame.left + k * wide)); // no seams, no overlaps
      const [lower, upper] = [row, row + 1].map((k) => Math.round(frame.bottom - k * high));
      context.fillRect(left, upper, right - left, lower - upper);
    });
    context.globalAlpha = 1;
    inside(context, frame, () => {
      context.fillStyle = "#ffffff";
      context.strokeStyle = "#000000";
      context.lineWidth = 1;
      for (const [a, b] of points[which]) {
        context.beginPath();
        context.arc(frame.px(a), frame.py(b), 3, 0, 7);
        context.fill();
        context.stroke();
      }
    });
    caption.textContent = [`across: ${functions.inputs[0]}, upward: ${functions.inputs[1]}`,
      classes ? "" : `${functions.target} from ${readable(least)} (dark) to ${readable(most)} (light)`,
      unknown && "faded: where nobody knows",
      points[which].length && "circles: the dictionary"].filter(Boolean).join("; ");
  }

  const draw = drawn(canvas, (context, width, height) => {
    if (which !== null) (functions.inputs.length === 1 ? curve : plane)(context, width, height);
  });
  const legend = element("div", { class: "legend" });
  if (classes && functions.inputs.length === 2) {
    classes.forEach((name, k) => {
      const swatch = element("i");
      swatch.style.borderTop = `0.7rem solid var(--k${k % COLORS})`;
      legend.append(element("span", {}, swatch, name));
    });
  }

  function show(place, name) {
    which = functions.of[place];
    node = place;
    if (which === null) return element("p", { class: "faint" }, "The function of this node is not on this page.");
    heading.textContent = `What node ${name} has learned`;
    canvas.setAttribute("aria-label", `The function of node ${name} after the last round`);
    requestAnimationFrame(draw);
    return element("section", { class: "card" }, heading, canvas, legend, caption);
  }

  return { show };
}
