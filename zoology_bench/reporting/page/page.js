"use strict";
// Text from results reaches the page through textContent alone: nothing in it is ever markup.
const data = JSON.parse(document.getElementById("data").textContent);
const table = document.getElementById("results");
const body = table.tBodies[0];
const rows = Array.from(body.rows);
const inputs = {
  text: document.getElementById("filter"),
  model: document.getElementById("model"),
  cell: document.getElementById("cell"),
};
const count = document.getElementById("count");

function applyFilters() {
  const words = inputs.text.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    const keep = words.every((word) => text.includes(word)) &&
      (inputs.model.value === "" || row.dataset.model === inputs.model.value) &&
      (inputs.cell.value === "" || row.dataset.cell === inputs.cell.value);
    row.hidden = !keep;
    shown += keep;
  }
  count.textContent = `${shown} of ${rows.length} lines`;
  filterFigures();
}

// Lines of the figures follow the model and the cell that the table is filtered by.
function filterFigures() {
  if (!window.Plotly) return;
  for (const figure of data.figures) {
    const place = document.getElementById(figure.id);
    if (!place.data || !figure.data.some((trace) => trace.meta)) continue;
    const visible = figure.data.map(({ meta }) => !meta ||
      ((inputs.model.value === "" || meta.model === inputs.model.value) &&
       (inputs.cell.value === "" || meta.cells.includes(inputs.cell.value))));
    const named = new Set();  // the first visible line of a model stands for it in the legend
    const showlegend = figure.data.map((trace, index) => {
      const first = visible[index] && trace.hoverinfo !== "skip" && !named.has(trace.legendgroup);
      if (first) named.add(trace.legendgroup);
      return first;
    });
    Plotly.restyle(place, { visible, showlegend });
  }
}

function sortBy(column, header) {
  const descending = header.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const key = (row) => row.cells[column].dataset.value;
  const numeric = header.dataset.kind === "number";
  const compare = (a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x === "" || y === "") return (x === "") - (y === "");  // what is not known comes last
    const order = numeric ? Number(x) - Number(y) : x.localeCompare(y, undefined, { numeric: true });
    return descending ? -order : order;
  };
  body.append(...rows.slice().sort(compare));
}

function element(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

function showRuns(index) {
  const line = data.lines[index];
  const dialog = document.getElementById("runs");
  const list = document.getElementById("run-list");
  document.getElementById("run-title").textContent = line.title;
  list.replaceChildren(...line.runs.map((run) => {
    const section = document.createElement("section");
    section.append(element("strong", `seed ${run.seed}: ${run.result}`));
    section.append(element("div", run.facts));
    section.append(element("pre", run.command || "command line not recorded"));
    const config = data.configs[run.run_id];
    const details = document.createElement("details");
    details.open = line.runs.length === 1;
    details.append(element("summary", config ? "configuration" : `configuration: ${run.config_path} of the output folder (not beside these results)`));
    if (config) details.append(element("pre", JSON.stringify(config, null, 1)));
    section.append(details);
    return section;
  }));
  dialog.showModal();
}

for (const input of Object.values(inputs)) input.addEventListener("input", applyFilters);
Array.from(table.tHead.rows[0].cells).forEach((header, column) => {
  header.querySelector("button").addEventListener("click", () => sortBy(column, header));
});
body.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-line]");
  if (button) showRuns(Number(button.dataset.line));
});
document.getElementById("close").addEventListener("click", () => document.getElementById("runs").close());
applyFilters();

if (window.Plotly) {
  for (const figure of data.figures) {
    const place = document.getElementById(figure.id);
    Plotly.newPlot(place, figure.data, figure.layout, {
      responsive: true,
      displaylogo: false,
      modeBarButtonsToRemove: ["select2d", "lasso2d", "zoomIn2d", "zoomOut2d", "autoScale2d"],
    });
    place.on("plotly_click", (event) => {
      const line = event.points[0].customdata;
      if (line !== undefined && line !== null) showRuns(Number(line));
    });
  }
}
