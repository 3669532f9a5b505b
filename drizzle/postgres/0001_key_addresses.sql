ALTER TABLE "keys" ADD COLUMN "first_address" text COLLATE "C";--> statement-breakpoint
ALTER TABLE "keys" ADD COLUMN "last_address" text COLLATE "C";