// The views, in the order of the left column. A view is a file with `export function View({parts, query})`; it is loaded when it
// is opened. To add one, add its line here: its name in the address, its title, and its file.
export const VIEWS = [
  { name: "now", title: "Now", load: () => import("./views/now.js") },
  { name: "work", title: "Work", load: () => import("./views/work.js") },
  { name: "memory", title: "Memory", load: () => import("./views/memory.js") },
  { name: "logs", title: "Logs", load: () => import("./views/logs.js") },
  { name: "data", title: "Data", load: () => import("./views/data.js") },
  { name: "train", title: "Train", load: () => import("./views/train.js") },
  { name: "tune", title: "Tune", load: () => import("./views/tune.js") },
  { name: "serve", title: "Serve", load: () => import("./views/serve.js") },
  { name: "llm", title: "LLM", load: () => import("./views/llm.js") },
  { name: "stacks", title: "Stacks", load: () => import("./views/stacks.js") },
  { name: "programs", title: "Programs", load: () => import("./views/programs.js") },
];

export const viewOf = (name) => VIEWS.find((view) => view.name === name);
