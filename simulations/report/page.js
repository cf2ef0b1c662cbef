"use strict";
// The page from top to bottom, out of the data in it.

function paragraphs(texts, look) {
  return texts.map((text) => element("p", { class: look }, text));
}

function curves(data) {
  const courses = data.courses;
  const lines = (panel, over) => panel.lines.map((one) => ({ ...one, x: courses[one.course][over.name] }));
  const hidden = new Set();
  const charts = data.panels.map((panel) => [panel, chart(panel.title, lines(panel, data.over[0]), panel.levels, data.over[0].label, hidden)]);
  const select = choice("Against", data.over, (over) => charts.forEach(([panel, made]) => made.show(lines(panel, over), over.label)));
  return element("section", { "aria-labelledby": "curves" },
    element("h2", { id: "curves" }, "Curves"),
    element("div", { class: "controls" }, select, element("span", { class: "faint" }, data.band)),
    legend(data.panels.flatMap((panel) => panel.lines), hidden, () => charts.forEach(([, made]) => made.look(null))),
    element("div", { class: "panels" }, ...charts.map(([, made]) => made.element)));
}

// The network of each row of a comparison, one at a time.
function networks(rows) {
  const pick = rows.length > 1 ? [choice("Of", rows, (row) => box.replaceChildren(network(row, null, pick)))] : [];
  const box = element("div", {}, network(rows[0], null, pick));
  return box;
}

function page(data) {
  const parts = [element("section", { "aria-label": "Verdict" }, ...paragraphs(data.verdict, null), ...paragraphs(data.warnings, "warning"))];
  const tables = data.tables.map((spec) => element("section", { "aria-labelledby": `table-${spec.name}` },
    element("h2", { id: `table-${spec.name}` }, spec.title), sortableTable(spec)));
  if (data.kind === "comparison") parts.push(...tables.splice(0, 1)); // what a comparison is for
  if (data.curves.panels.length) parts.push(curves(data.curves));
  if (data.network) parts.push(network(data.network, data.functions));
  if (data.networks && data.networks.length) parts.push(networks(data.networks));
  parts.push(...tables);
  parts.push(element("h2", {}, "Settings"), element("details", {}, element("summary", {}, "The experiment, as a file that repeats it"),
    element("pre", { tabindex: 0 }, data.settings)));
  if (data.notes.length) parts.push(element("section", { "aria-label": "Notes" }, element("h2", {}, "Notes"), ...paragraphs(data.notes, "faint")));
  document.getElementById("main").append(...parts);
}

page(JSON.parse(document.getElementById("data").textContent));
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraws.forEach((again) => again()));
