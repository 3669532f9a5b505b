ALTER TABLE `keys` ADD `first_address` text;--> statement-breakpoint
ALTER TABLE `keys` ADD `last_address` text;