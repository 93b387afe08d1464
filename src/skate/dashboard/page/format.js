// Numbers, amounts and times as people read them.
const count = new Intl.NumberFormat("en-US");
const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];

export const number = (value) => (value === null || value === undefined ? "" : count.format(value));

export function amount(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  const size = Math.abs(value);
  if (size >= 1000 || Number.isInteger(value)) return count.format(Math.round(value));
  return String(Number(value.toPrecision(3)));
}

export function bytes(value) {
  if (value === null || value === undefined || value < 0) return "";
  const power = value < 1 ? 0 : Math.min(SIZES.length - 1, Math.floor(Math.log2(value) / 10));
  return `${amount(value / 1024 ** power)} ${SIZES[power]}`;
}

// Resources that are memory are in bytes.
export const resource = (name, value) => (/memory/.test(name) ? bytes(value) : amount(value));

export function seconds(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  if (value < 0.001) return `${amount(value * 1e6)} µs`;
  if (value < 1) return `${amount(value * 1e3)} ms`;
  if (value < 120) return `${amount(value)} s`;
  const minutes = Math.floor(value / 60);
  if (minutes < 120) return `${minutes} min ${Math.round(value % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export const clock = (ms) => (ms ? new Date(ms).toLocaleTimeString("en-GB") : "");
export const moment = (ms) => (ms ? new Date(ms).toISOString().replace("T", " ").slice(0, 23) : "");
export const short = (id) => (id ? id.slice(0, 12) : "");
export const plural = (value, word) => `${number(value)} ${word}${value === 1 ? "" : "s"}`;
