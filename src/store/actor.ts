/** Who does it and when, for the admin log. */
export interface Actor {
  name: string;
  at: number;
}
