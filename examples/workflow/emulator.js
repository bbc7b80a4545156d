const port = process.env.QSTASH_DEV_PORT ?? 8080;

/** A call of the emulator's control API; its JSON answer. */
export async function control(method, path, body) {
  const response = await fetch(`http://127.0.0.1:${port}/_emulator${path}`, { method, body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

/** Moves the clock ahead, such as by "1d2h", and does all that is due on the way. */
export const advance = (by) => control("POST", "/clock/advance", { by });

/** Every attempt to deliver to a URL so far, the newest last. */
export const deliveries = async (url) =>
  (await control("GET", `/deliveries?url=${encodeURIComponent(url)}`)).deliveries;
