/** Texts of the sign-in. */

export const sign_in = {
  title: "Sign in to Clusterra",
  with: "Sign in with {{issuer}}",
  default: "Sign in",
  google: "Google",
  entra: "Microsoft",
  comes_back: "After signing in you return to the page you opened.",
  or: "or",
  address: "E-mail address of your organisation",
  go_on: "Continue",
  no_address: "Enter the full address, such as ada@example.org.",
  unknown_domain: "Addresses of this domain cannot sign in here. Use the address of your organisation, or an invitation.",
  unknown_issuers: "The sign-in options could not be loaded",
  none: "Sign-in is not set up",
  none_details: "This installation has no identity provider. Contact its operators.",
  device: "Enter a device code",
  instead: "Go to sign-in",
  invitation: {
    title: "Invitation to a workspace",
    details:
      "To accept, sign in with the e-mail address that was invited. An invitation can be accepted once.",
    accept: "Accept and sign in",
    gone: "This invitation is no longer valid",
    incomplete: "The link is incomplete. Open the link you received again, or ask for a new invitation.",
  },
} as const;
