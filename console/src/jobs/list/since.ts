/** From when on the list has jobs that ended. */

/** How far back it reads, unless somebody asks for more. */
const USUAL_DAYS = 7;

/** The beginning of a day; without one that of the usual time. Never later than the usual one: less is filtered. */
export function beginning(day?: string): Date {
  const usual = new Date();
  usual.setHours(0, 0, 0, 0);
  usual.setDate(usual.getDate() - USUAL_DAYS);
  const wanted = day === undefined ? usual : new Date(`${day}T00:00:00`);
  return wanted < usual ? wanted : usual;
}
