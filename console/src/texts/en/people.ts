/** Texts of the room `people`. */

export const people = {} as const;
