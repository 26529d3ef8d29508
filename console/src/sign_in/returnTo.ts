/** Where to go after the sign-in. Only an address of our own: the gateway checks it again. */

/** What the gateway takes (`ReturnTo` of its login). */
const TAKEN = /^\/([!-.0-[\]-~][!-[\]-~]*)?$/;
const LONGEST = 1024;
const BASE = "https://own.invalid";

/** The path of our own that a value names; `/` where it names none, and where it leads to the sign-in itself. */
export function ownPath(value: unknown): string {
  if (typeof value !== "string" || !value.startsWith("/") || !URL.canParse(value, BASE)) return "/";
  const { origin, pathname, search, hash } = new URL(value, BASE);
  const path = `${pathname}${search}${hash}`;
  if (origin !== BASE || path.length > LONGEST || !TAKEN.test(path)) return "/";
  return /^\/(sign-in|invitation)\b/.test(path) ? "/" : path;
}

/** The domain of an e-mail address as the login takes it; null for what is no address. */
export function domainOf(address: string): string | null {
  const domain = /^[^@\s]{1,64}@([^@\s]{1,253})$/.exec(address.trim())?.[1]?.toLowerCase();
  return domain !== undefined && /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(domain) ? domain : null;
}

/** The address that begins a login. */
export function loginAddress(by: { issuer: string } | { domain: string }, returnTo: string): string {
  return `/v1/auth/login?${new URLSearchParams({ ...by, return_to: returnTo }).toString()}`;
}
