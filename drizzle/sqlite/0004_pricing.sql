ALTER TABLE `accounts` ADD `plan` text;--> statement-breakpoint
ALTER TABLE `requests` ADD `pricing` text;--> statement-breakpoint
DROP TRIGGER `accounts_changed`;--> statement-breakpoint
CREATE TRIGGER `accounts_changed` AFTER UPDATE OF `overdraft`, `disabled`, `plan` ON `accounts`
BEGIN
	UPDATE `changes` SET `seq` = `seq` + 1;
END;
