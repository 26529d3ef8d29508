/** Texts of the sign-in. */

export const sign_in = {
  title: "Sign in to Clusterra",
  with: "Sign in with {{issuer}}",
  default: "Sign in",
  google: "Google",
  entra: "Microsoft",
  comes_back: "After the sign-in you come back to the page that you wanted.",
  or: "or",
  address: "E-mail address of your organisation",
  go_on: "Go on",
  no_address: "Write the whole address, such as ada@example.org.",
  unknown_domain: "Nobody with an address of this domain can sign in here. Use your organisation's address, or an invitation.",
  unknown_issuers: "The ways to sign in are not known now",
  none: "Nobody can sign in here yet",
  none_details: "No identity provider is set up. Contact the operators.",
  device: "Enter a device code",
  instead: "Go to the sign-in",
  invitation: {
    title: "You are invited to a workspace",
    details:
      "Accept it by signing in with the e-mail address that the invitation was made for. An invitation is accepted once.",
    accept: "Accept and sign in",
    gone: "This invitation is no longer open",
    incomplete: "The link is incomplete. Open it again from where you got it, or ask who invited you for a new one.",
  },
} as const;
