// Files for the user: rows as CSV, and a download without a server.
const cell = (value) => {
  const text = value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
  // A text that a spreadsheet would run as a formula begins with a quote instead.
  const safe = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

export const csv = (titles, rows) => [titles, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";

export function save(name, text, type = "text/csv") {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const made = document.createElement("a");
  made.href = url;
  made.download = name;
  made.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
