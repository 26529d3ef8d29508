/** Texts of the room `fleet`. */

export const fleet = {} as const;
