/** Texts of the room `files`. */

export const files = {} as const;
