/** Texts of the room `submit`. */

export const submit = {} as const;
