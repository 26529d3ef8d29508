/** Texts of the room `templates`. */

export const templates = {} as const;
