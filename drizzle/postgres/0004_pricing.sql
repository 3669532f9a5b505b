ALTER TABLE "accounts" ADD COLUMN "plan" text COLLATE "C";--> statement-breakpoint
ALTER TABLE "requests" ADD COLUMN "pricing" text COLLATE "C";