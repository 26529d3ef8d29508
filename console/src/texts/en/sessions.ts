/** Texts of the room `sessions`. */

export const sessions = {} as const;
