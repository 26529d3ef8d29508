/** Texts of the room `workflows`. */

export const workflows = {} as const;
