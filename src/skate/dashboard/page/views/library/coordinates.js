// Parallel coordinates of trials: an axis for each parameter and one for the result; a line for each trial. Drag on an axis to
// choose a range. The table of trials beside it has the same numbers.
import { html, useEffect, useRef, useState } from "../../dom.js";
import { colours } from "../../theme.js";
import { shown } from "./figures.js";

const HEIGHT = 260;
const TOP = 34;
const BOTTOM = 22;
const STEPS = 5;
//: Lines of trials run over these colours, from the best result to the worst; the width of a line tells the same.
const BEST_SHARE = 0.15;

function axisOf(name, values) {
  const numbers = values.filter((value) => typeof value === "number");
  if (numbers.length === values.filter((value) => value !== null && value !== undefined).length && numbers.length) {
    let [low, high] = [Math.min(...numbers), Math.max(...numbers)];
    const isLog = low > 0 && high / low > 50;
    const scale = isLog ? Math.log : (value) => value;
    if (low === high) { low -= Math.abs(low) * 0.01 || 1; high += Math.abs(high) * 0.01 || 1; }
    const at = (value) => (typeof value === "number" ? (scale(value) - scale(low)) / (scale(high) - scale(low)) : null);
    const ticks = Array.from({ length: STEPS }, (_, step) => step / (STEPS - 1)).map((share) => ({
      share, text: shown(isLog ? Math.exp(Math.log(low) + share * (Math.log(high) - Math.log(low))) : low
        + share * (high - low)) }));
    return { name, at, ticks: ticks.map((tick) => ({ ...tick, text: Number(Number(tick.text).toPrecision(3)).toString() })) };
  }
  const kinds = [...new Set(values.map(shown))].sort();
  const place = (text) => (kinds.length > 1 ? kinds.indexOf(text) / (kinds.length - 1) : 0.5);
  return { name, at: (value) => place(shown(value)),
    ticks: kinds.map((text) => ({ share: place(text), text: text || "(none)" })) };
}

function axesOf(trials, metric) {
  const names = [...new Set(trials.flatMap((each) => Object.keys(each.config)))];
  const varied = names.filter((name) => new Set(trials.map((each) => shown(each.config[name]))).size > 1);
  const axes = varied.slice(0, 9).map((name) => ({ ...axisOf(name, trials.map((each) => each.config[name])),
    of: (trial) => trial.config[name] }));
  return [...axes, { ...axisOf(metric, trials.map((each) => each.last[metric])), of: (trial) => trial.last[metric] }];
}

function useWidth(box) {
  const [width, setWidth] = useState(700);
  useEffect(() => {
    const watcher = new ResizeObserver(() => setWidth(Math.max(300, box.current?.clientWidth || 700)));
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  return width;
}

const passes = (trial, axes, ranges) => axes.every((axis) => {
  const range = ranges[axis.name];
  const at = axis.at(axis.of(trial));
  return !range || (at !== null && at >= range[0] && at <= range[1]);
});

function Axis({ axis, x, last, range, drag }) {
  const y = (share) => TOP + (1 - share) * (HEIGHT - TOP - BOTTOM);
  return html`<g class="axis" onPointerDown=${(event) => drag(axis.name, event)}>
    <line x1=${x} x2=${x} y1=${y(1)} y2=${y(0)} /><rect class="grip" x=${x - 12} y=${y(1) - 6} width="24" height=${y(0) - y(1)
      + 12} />
    ${range && html`<rect class="range" x=${x - 6} width="12" y=${y(range[1])} height=${Math.max(2, y(range[0]) - y(range[1]))}
      />`}
    <text x=${x} y="16" text-anchor=${last ? "end" : "middle"} class="title">${axis.name}</text>
    ${axis.ticks.map((tick) => html`<text key=${tick.text} x=${last ? x - 6 : x + 6} y=${y(tick.share) + 4} text-anchor=${last
      ? "end" : "start"}>${tick.text}</text>`)}
  </g>`;
}

export function Coordinates({ trials, metric, mode, hovered, hover }) {
  const box = useRef(null);
  const [ranges, setRanges] = useState({});
  const width = useWidth(box);
  colours.value;
  const axes = axesOf(trials, metric);
  const place = (at) => 40 + (at * (width - 80)) / Math.max(1, axes.length - 1);
  const y = (share) => TOP + (1 - share) * (HEIGHT - TOP - BOTTOM);
  const result = axes.at(-1);
  const drag = (name, event) => {
    const frame = box.current.querySelector("svg").getBoundingClientRect();
    const share = (at) => Math.max(0, Math.min(1, 1 - (at - frame.top - TOP) / (HEIGHT - TOP - BOTTOM)));
    const from = share(event.clientY);
    const move = (moved) => { const to = share(moved.clientY); setRanges((old) => ({ ...old, [name]: [Math.min(from, to),
      Math.max(from, to)] })); };
    const up = (ended) => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", up);
      if (Math.abs(share(ended.clientY) - from) < 0.02) setRanges((old) => ({ ...old, [name]: undefined }));
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", up);
  };
  const lines = trials.map((trial) => {
    const points = axes.map((axis, at) => [place(at), axis.at(axis.of(trial))]).filter(([, share]) => share !== null);
    const good = mode === "min" ? 1 - (result.at(result.of(trial)) ?? 1) : result.at(result.of(trial)) ?? 0;
    return { trial, good, is: passes(trial, axes, ranges),
      path: points.map(([x, share]) => `${x.toFixed(1)},${y(share).toFixed(1)}`).join(" ") };
  }).sort((a, b) => a.good - b.good);
  const chosen = lines.filter((each) => each.is).length;
  const kind = (line) => (line.good >= 1 - BEST_SHARE ? "best" : line.good >= 0.5 ? "good" : "other");
  return html`<div class="coordinates" ref=${box}>
    <svg width=${width} height=${HEIGHT} role="img"
      aria-label=${`Parallel coordinates of ${trials.length} trials by ${axes.map((each) => each.name).join(", ")}; `
        + "the table of trials has the same numbers"}>
      ${lines.map((line) => html`<polyline key=${line.trial.id} points=${line.path} onPointerEnter=${() => hover(line.trial.id)}
        onPointerLeave=${() => hover("")}
        class=${`${kind(line)} ${line.is ? "" : "out"} ${hovered === line.trial.id ? "hovered" : ""}`}>
          <title>${line.trial.name}</title></polyline>`)}
      ${axes.map((axis, at) => html`<${Axis} key=${axis.name} axis=${axis} x=${place(at)} last=${at === axes.length - 1}
        range=${ranges[axis.name]} drag=${drag} />`)}
    </svg>
    <p class="small quiet">${chosen < trials.length ? html`${chosen} of ${trials.length} trials chosen. <button
      onClick=${() => setRanges({})}>All</button>`
      : "Drag along an axis to choose trials. "
        + `Thick lines are the best ${Math.round(100 * BEST_SHARE)} % of the range of ${metric}.`}</p>
  </div>`;
}
