// What the service is called here: its dialect's names, as the credentials of the world say.

/** How its headers begin, such as "Svc-". */
export const prefixOf = (state) => state.credentials?.dialect?.header_prefix ?? "Svc-";

/** Headers of the service, given by what stands behind the prefix. */
export const own = (state, headers) => Object.fromEntries(Object.entries(headers).map(([name, value]) => [prefixOf(state) + name, value]));

/** What the management API wants in `Authorization`. */
export function basicOf(state) {
  const { username, password } = state.credentials.management;
  return `Basic ${btoa(`${username}:${password}`)}`;
}
