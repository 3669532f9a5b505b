ALTER TABLE `accounts` ADD `plan` text;--> statement-breakpoint
ALTER TABLE `requests` ADD `pricing` text;