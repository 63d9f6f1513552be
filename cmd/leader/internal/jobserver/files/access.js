// Requests to the server, with the token if it asks for one. sessionStorage belongs to this tab and
// ends with it. The token is never part of an address, which servers and proxies log.

const kept = 'ringfence-token';

export const token = {
  get: () => sessionStorage.getItem(kept),
  set: (text) => sessionStorage.setItem(kept, text),
  forget: () => sessionStorage.removeItem(kept),
};

export function headers() {
  return token.get() ? { Authorization: `Bearer ${token.get()}` } : {};
}

// ask sends a GET. signal ends it.
export const ask = (address, signal) => fetch(address, { headers: headers(), signal, cache: 'no-store' });

// post sends a request that changes something.
export const post = (address) => fetch(address, {
  method: 'POST', headers: { ...headers(), 'Content-Type': 'application/json' }, body: '{}', cache: 'no-store',
});
