-- A figure may be a part of the tokens that a column counts, so what the figures add to the price says nothing of one alone.
DROP TRIGGER `request_figures_belong`;
--> statement-breakpoint
-- The figures of a request come with its end, and cost no more than it does. The audit proves what they add to its price.
CREATE TRIGGER `request_figures_belong` BEFORE INSERT ON `request_figures`
BEGIN
	SELECT RAISE(ABORT, 'request_figures: the request has no such figure')
	WHERE NOT EXISTS (
		SELECT 1 FROM `requests`
		WHERE `id` = NEW.`request_id` AND `status` <> 'running' AND `has_figures` = 1
			AND NEW.`quantity` * NEW.`price` + (
				SELECT coalesce(sum(`quantity` * `price`), 0) FROM `request_figures` WHERE `request_id` = NEW.`request_id`
			) <= `charge` + `write_off`
	);
	SELECT RAISE(ABORT, 'request_figures: that figure is there already')
	WHERE EXISTS (SELECT 1 FROM `request_figures` WHERE `request_id` = NEW.`request_id` AND `figure` = NEW.`figure`);
END;
