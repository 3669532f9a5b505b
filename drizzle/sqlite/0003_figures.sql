-- What is billed besides tokens gets rows of its own. The row of a request says only that there are some, and what they cost
-- together. Where there are none, this price is what 0.2.0 recorded for a web search.
ALTER TABLE `requests` RENAME COLUMN `web_searches` TO `has_figures`;
--> statement-breakpoint
ALTER TABLE `requests` RENAME COLUMN `price_web_search` TO `figures_price`;
--> statement-breakpoint
CREATE TABLE `request_figures` (
	`request_id` integer NOT NULL,
	`figure` text NOT NULL,
	`quantity` integer NOT NULL,
	`price` integer NOT NULL,
	PRIMARY KEY(`request_id`, `figure`),
	FOREIGN KEY (`request_id`) REFERENCES `requests`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "request_figures_amounts" CHECK("request_figures"."quantity" > 0 AND "request_figures"."price" >= 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `daily_figures` (
	`day` integer NOT NULL,
	`account_id` integer NOT NULL,
	`key_id` integer NOT NULL,
	`model` text NOT NULL,
	`provider` text NOT NULL,
	`endpoint` text NOT NULL,
	`figure` text NOT NULL,
	`quantity` integer NOT NULL,
	PRIMARY KEY(`day`, `account_id`, `key_id`, `model`, `provider`, `endpoint`, `figure`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`key_id`) REFERENCES `keys`(`id`) ON UPDATE no action ON DELETE no action
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
INSERT INTO `request_figures` SELECT `id`, 'web_searches', `has_figures`, `figures_price` FROM `requests` WHERE `has_figures` > 0;
--> statement-breakpoint
INSERT INTO `daily_figures`
SELECT `day`, `account_id`, `key_id`, `model`, `provider`, `endpoint`, 'web_searches', `web_searches`
FROM `daily_totals` WHERE `web_searches` > 0;
--> statement-breakpoint
DROP TRIGGER `requests_end_once`;
--> statement-breakpoint
UPDATE `requests` SET `has_figures` = 1, `figures_price` = `has_figures` * `figures_price` WHERE `has_figures` > 0;
--> statement-breakpoint
CREATE TRIGGER `requests_end_once` BEFORE UPDATE ON `requests`
BEGIN
	SELECT RAISE(ABORT, 'requests: a request ends exactly once')
	WHERE OLD.`status` <> 'running' OR NEW.`status` = 'running';
	SELECT RAISE(ABORT, 'requests: what was held is never changed')
	WHERE NEW.`hold` <> OLD.`hold` OR NEW.`account_id` <> OLD.`account_id` OR NEW.`key_id` <> OLD.`key_id`
		OR NEW.`id` <> OLD.`id` OR NEW.`public_id` <> OLD.`public_id` OR NEW.`at` <> OLD.`at`
		OR NEW.`endpoint` <> OLD.`endpoint`;
	SELECT RAISE(ABORT, 'requests: the account has no such next charge')
	WHERE NEW.`ledger_seq` IS NOT NULL AND NOT EXISTS (
		SELECT 1 FROM `accounts`
		WHERE `id` = NEW.`account_id`
			AND (`ledger_seq` + 1 = NEW.`ledger_seq` AND `balance` - NEW.`charge` = NEW.`balance_after`
				OR `ledger_seq` + 1 < NEW.`ledger_seq` AND EXISTS (
					SELECT 1 FROM `requests`
					WHERE `account_id` = NEW.`account_id` AND `ledger_seq` = NEW.`ledger_seq` - 1
						AND `balance_after` - NEW.`charge` = NEW.`balance_after`
				))
	);
END;
--> statement-breakpoint
ALTER TABLE `daily_totals` DROP COLUMN `web_searches`;
--> statement-breakpoint
-- The figures of a request come with its end, and cost no more than it says. The audit proves that they cost as much.
CREATE TRIGGER `request_figures_belong` BEFORE INSERT ON `request_figures`
BEGIN
	SELECT RAISE(ABORT, 'request_figures: the request has no such figure')
	WHERE NOT EXISTS (
		SELECT 1 FROM `requests`
		WHERE `id` = NEW.`request_id` AND `status` <> 'running' AND `has_figures` = 1
			AND NEW.`quantity` * NEW.`price` + (
				SELECT coalesce(sum(`quantity` * `price`), 0) FROM `request_figures` WHERE `request_id` = NEW.`request_id`
			) <= `figures_price`
	);
	SELECT RAISE(ABORT, 'request_figures: that figure is there already')
	WHERE EXISTS (SELECT 1 FROM `request_figures` WHERE `request_id` = NEW.`request_id` AND `figure` = NEW.`figure`);
END;
--> statement-breakpoint
CREATE TRIGGER `request_figures_stay` BEFORE UPDATE ON `request_figures`
BEGIN
	SELECT RAISE(ABORT, 'request_figures: rows are never changed');
END;
--> statement-breakpoint
CREATE TRIGGER `request_figures_keep` BEFORE DELETE ON `request_figures`
BEGIN
	SELECT RAISE(ABORT, 'request_figures: only those of requests that may be folded are removed')
	WHERE EXISTS (
		SELECT 1 FROM `requests` WHERE `id` = OLD.`request_id` AND `at` >= (SELECT `kept_since` FROM `retention`)
	);
END;
--> statement-breakpoint
CREATE TRIGGER `daily_figures_keep` BEFORE DELETE ON `daily_figures`
BEGIN
	SELECT RAISE(ABORT, 'daily_figures: totals are never removed');
END;
