CREATE TABLE `notices` (
	`type` text NOT NULL,
	`subject` text NOT NULL,
	`open` integer NOT NULL,
	`told` integer NOT NULL,
	`claimed_at` integer NOT NULL,
	PRIMARY KEY(`type`, `subject`)
);
--> statement-breakpoint
ALTER TABLE `accounts` ADD `low` integer;--> statement-breakpoint
ALTER TABLE `accounts` ADD `notify_url` text;