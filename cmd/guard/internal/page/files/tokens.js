const half = 1n << 32n;
const times = 10n ** 15n; // in microseconds, in 2001

// short writes a token as people tell it apart: Postgres' is a time (UTC), and ZooKeeper's has two halves.
export function short(token) {
  const n = BigInt(token);
  if (n > times) return new Date(Number(n / 1000n)).toISOString().slice(11, 23);
  return n < half ? token : `${n / half}·${n % half}`;
}
