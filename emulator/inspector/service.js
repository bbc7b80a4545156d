// What the service is called here: the names of its dialect.

/** How its headers begin, such as "Svc-". */
export const prefixOf = (state) => state.credentials?.dialect?.header_prefix ?? "Svc-";

/** Headers of the service, given by what stands behind the prefix. */
export const own = (state, headers) =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [prefixOf(state) + name, value]),
  );
