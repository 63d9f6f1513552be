const half = 1n << 32n;

// short writes a token as people tell it apart: ZooKeeper's and Postgres' have two halves.
export function short(token) {
  const n = BigInt(token);
  return n < half ? token : `${n / half}·${n % half}`;
}
