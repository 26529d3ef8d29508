/** Texts of the room `activity`. */

export const activity = {} as const;
