ALTER TABLE "daily_totals" ADD COLUMN "cache_saved" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "daily_totals" ADD COLUMN "operator_saved" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "requests" ADD COLUMN "cache_saved" bigint;--> statement-breakpoint
ALTER TABLE "requests" ADD COLUMN "operator_saved" bigint;