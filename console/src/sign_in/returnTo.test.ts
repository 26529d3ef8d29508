import { describe, expect, test } from "vitest";
import { domainOf, loginAddress, ownPath } from "./returnTo";

describe("where to go after the sign-in", () => {
  test.each([
    ["/", "/"],
    ["/c/main/jobs?sort=name&descending=true", "/c/main/jobs?sort=name&descending=true"],
    ["/c/main/jobs/4711#output", "/c/main/jobs/4711#output"],
    ["/c/main/files/a b/ü", "/c/main/files/a%20b/%C3%BC"],
    ["/v1/auth/device?user_code=ABCD", "/v1/auth/device?user_code=ABCD"],
  ])("%s stays", (given, path) => {
    expect(ownPath(given)).toBe(path);
  });

  test.each([
    "https://evil.example/",
    "//evil.example/",
    "/\\evil.example/",
    "/\t/evil.example/",
    "\t//evil.example",
    "/\n//evil.example",
    "javascript:alert(1)",
    "c/main",
    "",
    "/..//evil.example",
    "/.//evil.example",
    `/${"a".repeat(2_000)}`,
    "/sign-in?return_to=/sign-in",
    "/invitation#token",
    undefined,
    null,
    7,
    ["/c/main"],
  ])("%j leads to the start", (given) => {
    expect(ownPath(given)).toBe("/");
  });
});

test.each([
  ["ada@acme.example", "acme.example"],
  [" Ada@ACME.example ", "acme.example"],
  ["ada", null],
  ["ada@", null],
  ["@acme.example", null],
  ["ada@acme.example@evil.example", null],
  ["ada@ac me.example", null],
  ["ada@-acme", null],
  ["ada@acme.example&issuer=x", null],
])("the domain of %j is %j", (address, domain) => {
  expect(domainOf(address)).toBe(domain);
});

test("values in the address of a login are encoded", () => {
  expect(loginAddress({ issuer: "a&b" }, "/c/main?x=1&y=2")).toBe(
    "/v1/auth/login?issuer=a%26b&return_to=%2Fc%2Fmain%3Fx%3D1%26y%3D2",
  );
});
