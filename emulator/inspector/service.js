// What the service is called here: its dialect's names, as the credentials of the world say.

/** How its headers begin, such as "Svc-". */
export const prefixOf = (state) => state.credentials?.dialect?.header_prefix ?? "Svc-";

/** What the management API wants in `Authorization`. */
export function basicOf(state) {
  const { username, password } = state.credentials.management;
  return `Basic ${btoa(`${username}:${password}`)}`;
}
