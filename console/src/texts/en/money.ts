/** Texts of the room `money`. */

export const money = {} as const;
