/** Texts of the sign-in. */

export const sign_in = {
  title: "Sign in to Clusterra",
  with: "Sign in with {{issuer}}",
  default: "Sign in",
} as const;
