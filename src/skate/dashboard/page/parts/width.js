// The width of an element, kept up to date.
import { useEffect, useState } from "../dom.js";

export function useWidth(box, first = 800) {
  const [width, setWidth] = useState(first);
  useEffect(() => {
    const node = box.current;
    const look = () => setWidth(node.clientWidth || first);
    const watcher = new ResizeObserver(look);
    watcher.observe(node);
    look();
    return () => watcher.disconnect();
  }, []);
  return width;
}
