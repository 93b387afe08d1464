// Kept sessions: the banner of one that is shown from a file, and the button that saves one.
import { html, useState } from "../dom.js";
import { moment } from "../format.js";
import { kept, token } from "../session.js";

export function Kept() {
  if (!kept.value) return null;
  return html`<p class="kept" data-kept>This is a kept session, from ${moment(kept.value.began * 1000).slice(0,
    19)} to ${moment(kept.value.ended * 1000).slice(0, 19)}. Nothing of it runs here.</p>`;
}

async function fetched() {
  const answer = await fetch("api/skate/session", { headers: { Authorization: `Bearer ${token()}` }, cache: "no-store",
    credentials: "omit" });
  if (!answer.ok) throw new Error(await answer.text());
  const name = /filename="([^"]+)"/.exec(answer.headers.get("content-disposition") || "");
  return [await answer.blob(), name ? name[1] : "session.skate"];
}

export function SaveSession() {
  const [state, setState] = useState("");
  if (kept.value) return null;
  const act = async () => {
    setState("Saving …");
    try {
      const [blob, name] = await fetched();
      const made = document.createElement("a");
      made.href = URL.createObjectURL(blob);
      made.download = name;
      made.click();
      setTimeout(() => URL.revokeObjectURL(made.href), 1000);
      setState(`skate dashboard open ${name}`);
    } catch (error) {
      setState(`Not saved: ${error.message}`);
    }
  };
  return html`<div class="save"><button onClick=${act} disabled=${state === "Saving …"}
    title="What this page shows, as a file that opens without the session">Save session</button>
    <span class="small quiet" role="status">${state}</span></div>`;
}
