"use strict";
// Elements and numbers for all of the page, and tables that a click on a heading sorts.
// Text from files goes in as text nodes and attributes only, never as markup.

const FIRST_ROWS = 50;

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

function readable(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value;
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e15) return value.toLocaleString("en-US");
  if (size >= 1e-3 && size < 1e4) return String(Number(value.toPrecision(4)));
  return size >= 1e4 && size < 1e7 ? Math.round(value).toLocaleString("en-US") : value.toExponential(2);
}

// One form for all numbers of a column: whole, with so many decimals that half of them have four digits, or in powers of ten.
function formOf(cells) {
  const sizes = cells.filter((cell) => cell).map(Math.abs).sort((a, b) => a - b);
  if (!sizes.length || cells.every((cell) => cell === null || Number.isInteger(cell))) return readable;
  const decimals = Math.min(Math.max(3 - Math.floor(Math.log10(sizes[sizes.length >> 1])), 0), 8);
  const fits = sizes[0] >= 10 ** -decimals && sizes[sizes.length - 1] < 1e9;
  const form = (cell) => (fits ? cell.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }) : cell.toExponential(3));
  return (cell) => (cell === null ? readable(cell) : form(cell));
}

// What is missing comes last in either order.
function ordered(cells, upward) {
  const sign = upward ? 1 : -1;
  return [...cells.keys()].sort((i, j) => {
    const [a, b] = [cells[i], cells[j]];
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * String(a).localeCompare(String(b), "en", { numeric: true });
  });
}

function sortableTable(spec) {
  const columns = spec.columns;
  const count = columns[0].cells.length;
  let order = [...columns[0].cells.keys()];
  let by = -1;
  let upward = true;
  let shown = Math.min(count, FIRST_ROWS);
  const numeric = columns.map(({ cells }) => cells.every((cell) => cell === null || typeof cell === "number"));
  const forms = columns.map(({ cells, mixed }, place) => (numeric[place] && !mixed ? formOf(cells) : readable));
  const body = element("tbody");
  const headings = columns.map((column, place) =>
    element("th", { scope: "col", class: numeric[place] ? "number" : null },
      element("button", { type: "button", onclick: () => sort(place) }, column.label)));
  const more = element("button", { type: "button", onclick: () => { shown = count; fill(); } }, `Show all ${readable(count)} rows`);

  function cell(column, place, row) {
    const text = column.shown ? column.shown[row] : forms[place](column.cells[row]);
    const best = column.best && column.best.includes(row);
    return element("td", { class: [numeric[place] && "number", best && "best"].filter(Boolean).join(" ") || null }, text);
  }

  function fill() {
    body.replaceChildren(...order.slice(0, shown).map((row) =>
      element("tr", {}, ...columns.map((column, place) => cell(column, place, row)))));
    more.hidden = shown >= count;
  }

  function sort(place) {
    upward = place === by ? !upward : true;
    by = place;
    order = ordered(columns[place].cells, upward);
    headings.forEach((heading, other) => {
      if (other === place) heading.setAttribute("aria-sort", upward ? "ascending" : "descending");
      else heading.removeAttribute("aria-sort");
    });
    fill();
  }

  fill();
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...headings)), body);
  const scroll = element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": spec.title }, table);
  const hint = element("p", { class: "hint", hidden: true }, "This table is wider than the page: scroll it sideways \u2192");
  new ResizeObserver(() => { hint.hidden = scroll.scrollWidth <= scroll.clientWidth + 8; }).observe(scroll);
  const note = element("p", { class: "note", hidden: !spec.note }, spec.note);
  return element("div", {}, note, hint, scroll, more);
}
