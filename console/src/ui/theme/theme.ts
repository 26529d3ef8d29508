/** Mantine's theme: small, dense, one accent colour, the bundled fonts. */

import { createTheme, type CSSVariablesResolver, type MantineColorsTuple } from "@mantine/core";

const accent: MantineColorsTuple = [
  "#e9effc", "#cfdcf8", "#a9c1f2", "#8fb1ff", "#6691ee", "#3f70dd", "#2454c6", "#1f49ad", "#1a3d91", "#153176",
];

export const theme = createTheme({
  primaryColor: "accent",
  // Both carry white text; text in the accent's colour follows the token.
  primaryShade: { light: 6, dark: 5 },
  autoContrast: true,
  colors: { accent },
  fontFamily: "'Inter Variable', system-ui, sans-serif",
  fontFamilyMonospace: "'JetBrains Mono Variable', ui-monospace, monospace",
  fontSizes: { xs: "12px", sm: "13px", md: "14px", lg: "16px", xl: "18px" },
  headings: { fontFamily: "'Inter Variable', system-ui, sans-serif", fontWeight: "600" },
  defaultRadius: "sm",
  cursorType: "pointer",
  respectReducedMotion: true,
  components: {
    Button: { defaultProps: { size: "xs" } },
    ActionIcon: { defaultProps: { variant: "subtle" } },
    TextInput: { defaultProps: { size: "xs" } },
    NumberInput: { defaultProps: { size: "xs" } },
    Select: { defaultProps: { size: "xs", allowDeselect: false } },
    MultiSelect: { defaultProps: { size: "xs" } },
    NativeSelect: { defaultProps: { size: "xs" } },
    Autocomplete: { defaultProps: { size: "xs" } },
    Textarea: { defaultProps: { size: "xs" } },
    Radio: { defaultProps: { size: "xs" } },
    Checkbox: { defaultProps: { size: "xs" } },
    Switch: { defaultProps: { size: "xs" } },
    SegmentedControl: { defaultProps: { size: "xs" } },
    Tooltip: { defaultProps: { openDelay: 300, multiline: true, maw: 360 } },
    // The placeholder is a focusable element without a role, which a menu may not have.
    Menu: { defaultProps: { withInitialFocusPlaceholder: false } },
    Modal: { defaultProps: { size: "lg", closeButtonProps: { "aria-label": "Close" } } },
  },
});

/** Mantine's own colours follow the tokens, so that there is one set of surfaces and lines. */
export const variables: CSSVariablesResolver = () => {
  const shared = {
    "--mantine-color-body": "var(--surface)",
    "--mantine-color-text": "var(--text)",
    "--mantine-color-dimmed": "var(--text-quiet)",
    "--mantine-color-default-border": "var(--line)",
    "--mantine-color-placeholder": "var(--text-quiet)",
    "--mantine-color-error": "var(--state-failed)",
    "--mantine-color-anchor": "var(--accent)",
  };
  return { variables: {}, light: shared, dark: shared };
};
