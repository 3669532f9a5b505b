/** The store cannot be used. The message is one line that tells what to do. */
export class StoreError extends Error {
  override readonly name = "StoreError";
}

/** A database or a copy is damaged, or its records do not agree. */
export class DamagedStoreError extends StoreError {}

/** The work was asked to stop, and has changed nothing. */
export class StoppedError extends StoreError {}

/** The disk has no room for a copy. */
export class NoRoomError extends StoreError {}

/** A pooler between this process and the database takes the session away after each transaction. */
export class PooledError extends StoreError {}

/** There is no record with the name or the id. */
export class NotFoundError extends StoreError {}
