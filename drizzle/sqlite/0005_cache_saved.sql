ALTER TABLE `daily_totals` ADD `cache_saved` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `daily_totals` ADD `operator_saved` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `requests` ADD `cache_saved` integer;--> statement-breakpoint
ALTER TABLE `requests` ADD `operator_saved` integer;