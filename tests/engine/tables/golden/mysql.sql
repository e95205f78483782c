-- marginals of rows
SELECT
  `cell`,
  COUNT(*)
FROM (
  SELECT
    CASE
      WHEN `position` = CAST(0 AS SIGNED)
      THEN `cell_0`
      WHEN `position` = CAST(1 AS SIGNED)
      THEN `cell_1`
      WHEN `position` = CAST(2 AS SIGNED)
      THEN `cell_2`
    END AS `cell`
  FROM (
    SELECT
      CAST(0 AS SIGNED) + (
        `code_0` * CAST(1 AS SIGNED)
      ) AS `cell_0`,
      CAST(4 AS SIGNED) + (
        `code_0` * CAST(3 AS SIGNED)
      ) + `code_2` * CAST(1 AS SIGNED) AS `cell_1`,
      CAST(16 AS SIGNED) + (
        `code_1` * CAST(1 AS SIGNED)
      ) AS `cell_2`
    FROM (
      SELECT
        *
      FROM (
        SELECT
          *,
          CASE
            WHEN NOT NOT `number_0` IS NULL
            THEN CAST(3 AS SIGNED)
            WHEN NOT `number_0` IS NULL
            THEN CASE
              WHEN `number_0` >= CAST('18.0' AS DOUBLE)
              THEN CASE
                WHEN `number_0` >= CAST('65.0' AS DOUBLE)
                THEN CAST(2 AS SIGNED)
                ELSE CAST(1 AS SIGNED)
              END
              ELSE CAST(0 AS SIGNED)
            END
          END AS `code_0`,
          CASE
            WHEN `number_1` >= CAST('0.0' AS DOUBLE) AND `number_1` <= CAST('10.0' AS DOUBLE)
            THEN CASE
              WHEN `number_1` >= CAST('0.5' AS DOUBLE)
              THEN CAST(1 AS SIGNED)
              ELSE CAST(0 AS SIGNED)
            END
          END AS `code_1`,
          CASE
            WHEN `text_2` = 'f'
            THEN CAST(0 AS SIGNED)
            WHEN `text_2` = 'm'
            THEN CAST(1 AS SIGNED)
            WHEN `text_2` = 'it''s \\'
            THEN CAST(2 AS SIGNED)
            ELSE CAST(2 AS SIGNED)
          END AS `code_2`
        FROM (
          SELECT
            *,
            NULLIF(
              CASE
                WHEN CASE
                  WHEN `any_number_0` < CAST('-9007199254740992.0' AS DOUBLE)
                  THEN CAST('-9007199254740992.0' AS DOUBLE)
                  WHEN `any_number_0` > CAST('9007199254740992.0' AS DOUBLE)
                  THEN CAST('9007199254740992.0' AS DOUBLE)
                  ELSE `any_number_0`
                END = CAST(FLOOR(
                  CASE
                    WHEN `any_number_0` < CAST('-9007199254740992.0' AS DOUBLE)
                    THEN CAST('-9007199254740992.0' AS DOUBLE)
                    WHEN `any_number_0` > CAST('9007199254740992.0' AS DOUBLE)
                    THEN CAST('9007199254740992.0' AS DOUBLE)
                    ELSE `any_number_0`
                  END
                ) AS DOUBLE)
                THEN `any_number_0`
              END,
              CAST('-9.0' AS DOUBLE)
            ) AS `number_0`
          FROM (
            SELECT
              *,
              CASE
                WHEN REGEXP_INSTR(
                  `text_0`,
                  '^[+-]?([0-9]{1,40}([.][0-9]{0,40})?|[.][0-9]{1,40})([eE][+-]?[0-9]{1,2})?\\z'
                ) = 1
                THEN CAST(`text_0` AS DOUBLE)
              END AS `any_number_0`,
              CASE
                WHEN REGEXP_INSTR(
                  `text_1`,
                  '^[+-]?([0-9]{1,40}([.][0-9]{0,40})?|[.][0-9]{1,40})([eE][+-]?[0-9]{1,2})?\\z'
                ) = 1
                THEN CAST(`text_1` AS DOUBLE)
              END AS `number_1`
            FROM (
              SELECT
                NULLIF(
                  NULLIF(
                    NULLIF(
                      REGEXP_SUBSTR(
                        CAST(`age` AS CHAR) COLLATE utf8mb4_0900_bin,
                        '(?s)[^\\x09-\\x0d\\x20](.*[^\\x09-\\x0d\\x20])?'
                      ),
                      ''
                    ),
                    '-9'
                  ),
                  'n/a'
                ) AS `text_0`,
                NULLIF(
                  REGEXP_SUBSTR(
                    CAST(`wage` AS CHAR) COLLATE utf8mb4_0900_bin,
                    '(?s)[^\\x09-\\x0d\\x20](.*[^\\x09-\\x0d\\x20])?'
                  ),
                  ''
                ) AS `text_1`,
                NULLIF(
                  NULLIF(
                    REGEXP_SUBSTR(
                      CAST(`sex` AS CHAR) COLLATE utf8mb4_0900_bin,
                      '(?s)[^\\x09-\\x0d\\x20](.*[^\\x09-\\x0d\\x20])?'
                    ),
                    ''
                  ),
                  'x'
                ) AS `text_2`
              FROM `ward`.`patients`
            ) AS below
          ) AS below
        ) AS below
      ) AS below
      WHERE
        NOT `code_0` IS NULL AND NOT `code_1` IS NULL AND NOT `code_2` IS NULL
    ) AS below
  ) AS below
  CROSS JOIN (
    SELECT
      CAST(category AS CHAR) COLLATE utf8mb4_0900_bin AS `category`,
      CAST(place - 1 AS SIGNED) AS `position`
    FROM JSON_TABLE('["", "", ""]', '$[*]' COLUMNS(place FOR ORDINALITY, category LONGTEXT CHARACTER SET utf8mb4 PATH '$')) AS given
  ) AS named
) AS below
GROUP BY
  `cell`;

-- a category among many
SELECT
  `cell`,
  COUNT(*)
FROM (
  SELECT
    CASE WHEN `position` = CAST(0 AS SIGNED) THEN `cell_0` END AS `cell`
  FROM (
    SELECT
      CAST(0 AS SIGNED) + (
        `code_0` * CAST(1 AS SIGNED)
      ) AS `cell_0`
    FROM (
      SELECT
        *
      FROM (
        SELECT
          below.*,
          COALESCE(`position`, CAST(NULL AS SIGNED)) AS `code_0`
        FROM (
          SELECT
            NULLIF(
              REGEXP_SUBSTR(
                CAST(`ward` AS CHAR) COLLATE utf8mb4_0900_bin,
                '(?s)[^\\x09-\\x0d\\x20](.*[^\\x09-\\x0d\\x20])?'
              ),
              ''
            ) AS `text_0`
          FROM `ward`.`patients`
        ) AS below
        LEFT JOIN (
          SELECT
            CAST(category AS CHAR) COLLATE utf8mb4_0900_bin AS `category`,
            CAST(place - 1 AS SIGNED) AS `position`
          FROM JSON_TABLE(
            '["\\u00e9", "w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8", "w9", "w10", "w11", "w12", "w13", "w14", "w15", "w16", "w17", "w18", "w19", "w20", "w21", "w22", "w23", "w24", "w25", "w26", "w27", "w28", "w29", "w30", "w31", "w32", "w33", "w34", "w35", "w36", "w37", "w38", "w39", "w40", "w41", "w42", "w43", "w44", "w45", "w46", "w47", "w48", "w49", "w50", "w51", "w52", "w53", "w54", "w55", "w56", "w57", "w58", "w59", "w60", "w61", "w62", "w63"]'
          , '$[*]' COLUMNS(place FOR ORDINALITY, category LONGTEXT CHARACTER SET utf8mb4 PATH '$')) AS given
        ) AS named
          ON `text_0` = `category`
      ) AS below
      WHERE
        NOT `code_0` IS NULL
    ) AS below
  ) AS below
  CROSS JOIN (
    SELECT
      CAST(category AS CHAR) COLLATE utf8mb4_0900_bin AS `category`,
      CAST(place - 1 AS SIGNED) AS `position`
    FROM JSON_TABLE('[""]', '$[*]' COLUMNS(place FOR ORDINALITY, category LONGTEXT CHARACTER SET utf8mb4 PATH '$')) AS given
  ) AS named
) AS below
GROUP BY
  `cell`;

-- dates
SELECT
  `cell`,
  COUNT(*)
FROM (
  SELECT
    CASE
      WHEN `position` = CAST(0 AS SIGNED)
      THEN `cell_0`
      WHEN `position` = CAST(1 AS SIGNED)
      THEN `cell_1`
      WHEN `position` = CAST(2 AS SIGNED)
      THEN `cell_2`
    END AS `cell`
  FROM (
    SELECT
      CAST(0 AS SIGNED) + (
        `code_0` * CAST(1 AS SIGNED)
      ) AS `cell_0`,
      CAST(2 AS SIGNED) + (
        `code_1` * CAST(1 AS SIGNED)
      ) AS `cell_1`,
      CAST(26 AS SIGNED) + (
        `code_2` * CAST(1 AS SIGNED)
      ) AS `cell_2`
    FROM (
      SELECT
        *
      FROM (
        SELECT
          *,
          CASE
            WHEN NOT `number_0` IS NULL
            THEN CASE
              WHEN `number_0` >= CAST('18628.0' AS DOUBLE)
              THEN CAST(1 AS SIGNED)
              ELSE CAST(0 AS SIGNED)
            END
          END AS `code_0`,
          CASE
            WHEN `number_1` >= CAST('1704067200.0' AS DOUBLE)
            AND `number_1` < CAST('1735689600.0' AS DOUBLE)
            THEN CAST(FLOOR(
              (
                `number_1` - (
                  CAST(FLOOR(`number_1` / CAST('86400.0' AS DOUBLE)) AS DOUBLE) * CAST('86400.0' AS DOUBLE)
                )
              ) / CAST('3600.0' AS DOUBLE)
            ) AS SIGNED)
          END AS `code_1`,
          CASE
            WHEN NOT `number_2` IS NULL
            THEN CASE
              WHEN `number_2` >= CAST('1980.0' AS DOUBLE)
              THEN CAST(1 AS SIGNED)
              ELSE CAST(0 AS SIGNED)
            END
          END AS `code_2`
        FROM (
          SELECT
            *,
            CASE
              WHEN CASE
                WHEN `operation_1` < CAST('-9007199254740992.0' AS DOUBLE)
                THEN CAST('-9007199254740992.0' AS DOUBLE)
                WHEN `operation_1` > CAST('9007199254740992.0' AS DOUBLE)
                THEN CAST('9007199254740992.0' AS DOUBLE)
                ELSE `operation_1`
              END = CAST(FLOOR(
                CASE
                  WHEN `operation_1` < CAST('-9007199254740992.0' AS DOUBLE)
                  THEN CAST('-9007199254740992.0' AS DOUBLE)
                  WHEN `operation_1` > CAST('9007199254740992.0' AS DOUBLE)
                  THEN CAST('9007199254740992.0' AS DOUBLE)
                  ELSE `operation_1`
                END
              ) AS DOUBLE)
              THEN `operation_1`
            END AS `number_2`,
            CASE WHEN NOT `operation_1` IS NULL THEN '1' END AS `text_2`
          FROM (
            SELECT
              *,
              CAST(EXTRACT(YEAR FROM DATE_ADD(CAST('1970-01-01' AS DATE), INTERVAL (CAST(`number_0` AS SIGNED)) DAY)) AS DOUBLE) AS `operation_1`
            FROM (
              SELECT
                *,
                (
                  (
                    CAST('365.0' AS DOUBLE) * (
                      `year_of_date_0` - `shift_of_date_0`
                    ) + (
                      CAST(FLOOR((
                        `year_of_date_0` - `shift_of_date_0`
                      ) / CAST('4.0' AS DOUBLE)) AS DOUBLE) - CAST(FLOOR((
                        `year_of_date_0` - `shift_of_date_0`
                      ) / CAST('100.0' AS DOUBLE)) AS DOUBLE)
                    ) + CAST(FLOOR((
                      `year_of_date_0` - `shift_of_date_0`
                    ) / CAST('400.0' AS DOUBLE)) AS DOUBLE) + CAST(FLOOR(
                      (
                        (
                          CAST('153.0' AS DOUBLE) * (
                            (
                              `month_of_date_0` + (
                                CAST('12.0' AS DOUBLE) * `shift_of_date_0`
                              )
                            ) - CAST('3.0' AS DOUBLE)
                          )
                        ) + CAST('2.0' AS DOUBLE)
                      ) / CAST('5.0' AS DOUBLE)
                    ) AS DOUBLE) + `day_of_date_0`
                  ) - CAST('719469.0' AS DOUBLE)
                ) AS `number_0`,
                CASE
                  WHEN REGEXP_INSTR(`written_of_date_1`, '^.*:[0-9.]+(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)\\z') = 1
                  THEN `instant_of_date_1` + CAST('0.0' AS DOUBLE)
                  ELSE `wall_of_date_1`
                END AS `number_1`
              FROM (
                SELECT
                  *,
                  (
                    `wall_of_date_1` - (
                      (
                        CAST('3600.0' AS DOUBLE) * `ahead_hours_of_date_1`
                      ) + (
                        CAST('60.0' AS DOUBLE) * `ahead_minutes_of_date_1`
                      )
                    )
                  ) + (
                    (
                      CAST('3600.0' AS DOUBLE) * `behind_hours_of_date_1`
                    ) + (
                      CAST('60.0' AS DOUBLE) * `behind_minutes_of_date_1`
                    )
                  ) AS `instant_of_date_1`
                FROM (
                  SELECT
                    *,
                    (
                      (
                        (
                          (
                            (
                              (
                                (
                                  CAST('365.0' AS DOUBLE) * (
                                    `year_of_date_1` - `shift_of_date_1`
                                  ) + (
                                    CAST(FLOOR((
                                      `year_of_date_1` - `shift_of_date_1`
                                    ) / CAST('4.0' AS DOUBLE)) AS DOUBLE) - CAST(FLOOR((
                                      `year_of_date_1` - `shift_of_date_1`
                                    ) / CAST('100.0' AS DOUBLE)) AS DOUBLE)
                                  ) + CAST(FLOOR((
                                    `year_of_date_1` - `shift_of_date_1`
                                  ) / CAST('400.0' AS DOUBLE)) AS DOUBLE) + CAST(FLOOR(
                                    (
                                      (
                                        CAST('153.0' AS DOUBLE) * (
                                          (
                                            `month_of_date_1` + (
                                              CAST('12.0' AS DOUBLE) * `shift_of_date_1`
                                            )
                                          ) - CAST('3.0' AS DOUBLE)
                                        )
                                      ) + CAST('2.0' AS DOUBLE)
                                    ) / CAST('5.0' AS DOUBLE)
                                  ) AS DOUBLE) + `day_of_date_1`
                                ) - CAST('719469.0' AS DOUBLE)
                              ) * CAST('24.0' AS DOUBLE)
                            ) + `hour_of_date_1`
                          ) * CAST('60.0' AS DOUBLE)
                        ) + `minute_of_date_1`
                      ) * CAST('60.0' AS DOUBLE)
                    ) + `second_of_date_1` AS `wall_of_date_1`
                  FROM (
                    SELECT
                      *,
                      CASE
                        WHEN `month_of_date_0` <= CAST('2.0' AS DOUBLE)
                        THEN CAST('1.0' AS DOUBLE)
                        ELSE CAST('0.0' AS DOUBLE)
                      END AS `shift_of_date_0`,
                      CASE
                        WHEN `month_of_date_1` <= CAST('2.0' AS DOUBLE)
                        THEN CAST('1.0' AS DOUBLE)
                        ELSE CAST('0.0' AS DOUBLE)
                      END AS `shift_of_date_1`
                    FROM (
                      SELECT
                        *,
                        CAST(SUBSTR(
                          SUBSTRING_INDEX(SUBSTRING_INDEX(CONCAT(`written_of_date_0`, '..'), '.', 3), '.', -1),
                          1,
                          4
                        ) AS DOUBLE) AS `year_of_date_0`,
                        CAST(SUBSTR(
                          SUBSTRING_INDEX(SUBSTRING_INDEX(CONCAT(`written_of_date_0`, '.'), '.', 2), '.', -1),
                          1,
                          2
                        ) AS DOUBLE) AS `month_of_date_0`,
                        CAST(SUBSTR(
                          SUBSTRING_INDEX(SUBSTRING_INDEX(CONCAT(`written_of_date_0`, ''), '.', 1), '.', -1),
                          1,
                          2
                        ) AS DOUBLE) AS `day_of_date_0`,
                        CAST(SUBSTR(
                          SUBSTRING_INDEX(SUBSTRING_INDEX(CONCAT(`written_of_date_1`, ''), '-', 1), '-', -1),
                          1,
                          4
                        ) AS DOUBLE) AS `year_of_date_1`,
                        CAST(SUBSTR(
                          SUBSTRING_INDEX(SUBSTRING_INDEX(CONCAT(`written_of_date_1`, '-'), '-', 2), '-', -1),
                          1,
                          2
                        ) AS DOUBLE) AS `month_of_date_1`,
                        CAST(SUBSTR(
                          SUBSTRING_INDEX(SUBSTRING_INDEX(CONCAT(`written_of_date_1`, '--'), '-', 3), '-', -1),
                          1,
                          2
                        ) AS DOUBLE) AS `day_of_date_1`,
                        CAST(SUBSTR(
                          SUBSTRING_INDEX(
                            SUBSTRING_INDEX(CONCAT(REPLACE(`written_of_date_1`, 'T', ' '), ' '), ' ', 2),
                            ' ',
                            -1
                          ),
                          1,
                          2
                        ) AS DOUBLE) AS `hour_of_date_1`,
                        CAST(SUBSTR(
                          SUBSTRING_INDEX(
                            SUBSTRING_INDEX(CONCAT(REPLACE(`written_of_date_1`, 'T', ' '), ' '), ' ', 2),
                            ' ',
                            -1
                          ),
                          4,
                          2
                        ) AS DOUBLE) AS `minute_of_date_1`,
                        CAST(CASE
                          WHEN SUBSTR(
                            SUBSTRING_INDEX(
                              SUBSTRING_INDEX(CONCAT(REPLACE(`written_of_date_1`, 'T', ' '), ' '), ' ', 2),
                              ' ',
                              -1
                            ),
                            6,
                            1
                          ) = ':'
                          THEN SUBSTR(
                            SUBSTRING_INDEX(
                              SUBSTRING_INDEX(CONCAT(REPLACE(`written_of_date_1`, 'T', ' '), ' '), ' ', 2),
                              ' ',
                              -1
                            ),
                            7,
                            2
                          )
                          ELSE '0'
                        END AS DOUBLE) AS `second_of_date_1`,
                        CAST(CASE
                          WHEN SUBSTR(
                            REPLACE(
                              SUBSTRING_INDEX(
                                SUBSTRING_INDEX(
                                  CONCAT(
                                    SUBSTRING_INDEX(
                                      SUBSTRING_INDEX(CONCAT(REPLACE(`written_of_date_1`, 'T', ' '), ' '), ' ', 2),
                                      ' ',
                                      -1
                                    ),
                                    '+'
                                  ),
                                  '+',
                                  2
                                ),
                                '+',
                                -1
                              ),
                              ':',
                              ''
                            ),
                            1,
                            2
                          ) = ''
                          THEN '0'
                          ELSE SUBSTR(
                            REPLACE(
                              SUBSTRING_INDEX(
                                SUBSTRING_INDEX(
                                  CONCAT(
                                    SUBSTRING_INDEX(
                                      SUBSTRING_INDEX(CONCAT(REPLACE(`written_of_date_1`, 'T', ' '), ' '), ' ', 2),
                                      ' ',
                                      -1
                                    ),
                                    '+'
                                  ),
                                  '+',
                                  2
                                ),
                                '+',
                                -1
                              ),
                              ':',
                              ''
                            ),
                            1,
                            2
                          )
                        END AS DOUBLE) AS `ahead_hours_of_date_1`,
                        CAST(CASE
                          WHEN SUBSTR(
                            REPLACE(
                              SUBSTRING_INDEX(
                                SUBSTRING_INDEX(
                                  CONCAT(
                                    SUBSTRING_INDEX(
                                      SUBSTRING_INDEX(CONCAT(REPLACE(`written_of_date_1`, 'T', ' '), ' '), ' ', 2),
                                      ' ',
                                      -1
                                    ),
                                    '+'
                                  ),
                                  '+',
                                  2
                                ),
                                '+',
                                -1
                              ),
                              ':',
                              ''
                            ),
                            3,
                            2
                          ) = ''
                          THEN '0'
                          ELSE SUBSTR(
                            REPLACE(
                              SUBSTRING_INDEX(
                                SUBSTRING_INDEX(
                                  CONCAT(
                                    SUBSTRING_INDEX(
                                      SUBSTRING_INDEX(CONCAT(REPLACE(`written_of_date_1`, 'T', ' '), ' '), ' ', 2),
                                      ' ',
                                      -1
                                    ),
                                    '+'
                                  ),
                                  '+',
                                  2
                                ),
                                '+',
                                -1
                              ),
                              ':',
                              ''
                            ),
                            3,
                            2
                          )
                        END AS DOUBLE) AS `ahead_minutes_of_date_1`,
                        CAST(CASE
                          WHEN SUBSTR(
                            REPLACE(
                              SUBSTRING_INDEX(
                                SUBSTRING_INDEX(
                                  CONCAT(
                                    SUBSTRING_INDEX(
                                      SUBSTRING_INDEX(CONCAT(REPLACE(`written_of_date_1`, 'T', ' '), ' '), ' ', 2),
                                      ' ',
                                      -1
                                    ),
                                    '-'
                                  ),
                                  '-',
                                  2
                                ),
                                '-',
                                -1
                              ),
                              ':',
                              ''
                            ),
                            1,
                            2
                          ) = ''
                          THEN '0'
                          ELSE SUBSTR(
                            REPLACE(
                              SUBSTRING_INDEX(
                                SUBSTRING_INDEX(
                                  CONCAT(
                                    SUBSTRING_INDEX(
                                      SUBSTRING_INDEX(CONCAT(REPLACE(`written_of_date_1`, 'T', ' '), ' '), ' ', 2),
                                      ' ',
                                      -1
                                    ),
                                    '-'
                                  ),
                                  '-',
                                  2
                                ),
                                '-',
                                -1
                              ),
                              ':',
                              ''
                            ),
                            1,
                            2
                          )
                        END AS DOUBLE) AS `behind_hours_of_date_1`,
                        CAST(CASE
                          WHEN SUBSTR(
                            REPLACE(
                              SUBSTRING_INDEX(
                                SUBSTRING_INDEX(
                                  CONCAT(
                                    SUBSTRING_INDEX(
                                      SUBSTRING_INDEX(CONCAT(REPLACE(`written_of_date_1`, 'T', ' '), ' '), ' ', 2),
                                      ' ',
                                      -1
                                    ),
                                    '-'
                                  ),
                                  '-',
                                  2
                                ),
                                '-',
                                -1
                              ),
                              ':',
                              ''
                            ),
                            3,
                            2
                          ) = ''
                          THEN '0'
                          ELSE SUBSTR(
                            REPLACE(
                              SUBSTRING_INDEX(
                                SUBSTRING_INDEX(
                                  CONCAT(
                                    SUBSTRING_INDEX(
                                      SUBSTRING_INDEX(CONCAT(REPLACE(`written_of_date_1`, 'T', ' '), ' '), ' ', 2),
                                      ' ',
                                      -1
                                    ),
                                    '-'
                                  ),
                                  '-',
                                  2
                                ),
                                '-',
                                -1
                              ),
                              ':',
                              ''
                            ),
                            3,
                            2
                          )
                        END AS DOUBLE) AS `behind_minutes_of_date_1`
                      FROM (
                        SELECT
                          *,
                          CASE
                            WHEN REGEXP_INSTR(
                              `text_0`,
                              '^((0?[1-9]|1[0-9]|2[0-8])[.](0?[1-9]|1[0-2])[.]([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])|(29|30)[.](0?[13-9]|1[0-2])[.]([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])|31[.](0?[13578]|1[02])[.]([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])|29[.]0?2[.]([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00))([ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?)?\\z'
                            ) = 1
                            THEN `text_0`
                          END AS `written_of_date_0`,
                          CASE
                            WHEN REGEXP_INSTR(
                              `text_1`,
                              '^(([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-(0[13-9]|1[0-2])-(29|30)|([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-(0[13578]|1[02])-31|([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)-02-29)([ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)?)\\z'
                            ) = 1
                            THEN `text_1`
                          END AS `written_of_date_1`
                        FROM (
                          SELECT
                            NULLIF(
                              REGEXP_SUBSTR(
                                CAST(`day` AS CHAR) COLLATE utf8mb4_0900_bin,
                                '(?s)[^\\x09-\\x0d\\x20](.*[^\\x09-\\x0d\\x20])?'
                              ),
                              ''
                            ) AS `text_0`,
                            NULLIF(
                              REGEXP_SUBSTR(
                                CAST(`seen` AS CHAR) COLLATE utf8mb4_0900_bin,
                                '(?s)[^\\x09-\\x0d\\x20](.*[^\\x09-\\x0d\\x20])?'
                              ),
                              ''
                            ) AS `text_1`
                          FROM `ward`.`patients`
                        ) AS below
                      ) AS below
                    ) AS below
                  ) AS below
                ) AS below
              ) AS below
            ) AS below
          ) AS below
        ) AS below
      ) AS below
      WHERE
        NOT `code_0` IS NULL AND NOT `code_1` IS NULL AND NOT `code_2` IS NULL
    ) AS below
  ) AS below
  CROSS JOIN (
    SELECT
      CAST(category AS CHAR) COLLATE utf8mb4_0900_bin AS `category`,
      CAST(place - 1 AS SIGNED) AS `position`
    FROM JSON_TABLE('["", "", ""]', '$[*]' COLUMNS(place FOR ORDINALITY, category LONGTEXT CHARACTER SET utf8mb4 PATH '$')) AS given
  ) AS named
) AS below
GROUP BY
  `cell`;

-- rows of persons
SELECT
  `by_0`,
  COUNT(*)
FROM (
  SELECT
    CAST(FLOOR(
      CASE
        WHEN (
          `number_0` * CAST('100.0' AS DOUBLE)
        ) + CAST('0.5' AS DOUBLE) < CAST('0.0' AS DOUBLE)
        THEN CAST('0.0' AS DOUBLE)
        WHEN (
          `number_0` * CAST('100.0' AS DOUBLE)
        ) + CAST('0.5' AS DOUBLE) > CAST('1000.0' AS DOUBLE)
        THEN CAST('1000.0' AS DOUBLE)
        ELSE (
          `number_0` * CAST('100.0' AS DOUBLE)
        ) + CAST('0.5' AS DOUBLE)
      END
    ) AS SIGNED) AS `by_0`
  FROM (
    SELECT
      *
    FROM (
      SELECT
        *,
        ROW_NUMBER() OVER (
          PARTITION BY `unit_id`
          ORDER BY CASE WHEN MOD(
            (
              MOD(
                MOD(`value_0`, CAST(1000003 AS SIGNED)) * CAST(977801 AS SIGNED),
                CAST(1000003 AS SIGNED)
              ) + MOD(
                MOD(`value_1`, CAST(1000003 AS SIGNED)) * CAST(45324 AS SIGNED),
                CAST(1000003 AS SIGNED)
              )
            ),
            CAST(1000003 AS SIGNED)
          ) IS NULL THEN 1 ELSE 0 END, MOD(
            (
              MOD(
                MOD(`value_0`, CAST(1000003 AS SIGNED)) * CAST(977801 AS SIGNED),
                CAST(1000003 AS SIGNED)
              ) + MOD(
                MOD(`value_1`, CAST(1000003 AS SIGNED)) * CAST(45324 AS SIGNED),
                CAST(1000003 AS SIGNED)
              )
            ),
            CAST(1000003 AS SIGNED)
          ), CASE WHEN `value_0` IS NULL THEN 1 ELSE 0 END, `value_0`, CASE WHEN `value_1` IS NULL THEN 1 ELSE 0 END, `value_1`, CASE WHEN `code_0` IS NULL THEN 1 ELSE 0 END, `code_0`, CASE WHEN `code_1` IS NULL THEN 1 ELSE 0 END, `code_1`
        ) AS `rank_of_row`
      FROM (
        SELECT
          *,
          CAST(FLOOR(
            CASE
              WHEN (
                `number_0` * CAST('100.0' AS DOUBLE)
              ) + CAST('0.5' AS DOUBLE) < CAST('0.0' AS DOUBLE)
              THEN CAST('0.0' AS DOUBLE)
              WHEN (
                `number_0` * CAST('100.0' AS DOUBLE)
              ) + CAST('0.5' AS DOUBLE) > CAST('1000.0' AS DOUBLE)
              THEN CAST('1000.0' AS DOUBLE)
              ELSE (
                `number_0` * CAST('100.0' AS DOUBLE)
              ) + CAST('0.5' AS DOUBLE)
            END
          ) AS SIGNED) AS `value_0`,
          `code_1` AS `value_1`
        FROM (
          SELECT
            *
          FROM (
            SELECT
              *,
              CASE
                WHEN `number_0` >= CAST('0.0' AS DOUBLE) AND `number_0` <= CAST('10.0' AS DOUBLE)
                THEN CASE
                  WHEN `number_0` >= CAST('0.5' AS DOUBLE)
                  THEN CAST(1 AS SIGNED)
                  ELSE CAST(0 AS SIGNED)
                END
              END AS `code_0`,
              CASE
                WHEN `text_1` = 'f'
                THEN CAST(0 AS SIGNED)
                WHEN `text_1` = 'm'
                THEN CAST(1 AS SIGNED)
                WHEN `text_1` = 'it''s \\'
                THEN CAST(2 AS SIGNED)
                ELSE CAST(2 AS SIGNED)
              END AS `code_1`
            FROM (
              SELECT
                *,
                CASE
                  WHEN REGEXP_INSTR(
                    `text_0`,
                    '^[+-]?([0-9]{1,40}([.][0-9]{0,40})?|[.][0-9]{1,40})([eE][+-]?[0-9]{1,2})?\\z'
                  ) = 1
                  THEN CAST(`text_0` AS DOUBLE)
                END AS `number_0`
              FROM (
                SELECT
                  *
                FROM (
                  SELECT
                    NULLIF(
                      REGEXP_SUBSTR(
                        CAST(`wage` AS CHAR) COLLATE utf8mb4_0900_bin,
                        '(?s)[^\\x09-\\x0d\\x20](.*[^\\x09-\\x0d\\x20])?'
                      ),
                      ''
                    ) AS `text_0`,
                    NULLIF(
                      NULLIF(
                        REGEXP_SUBSTR(
                          CAST(`sex` AS CHAR) COLLATE utf8mb4_0900_bin,
                          '(?s)[^\\x09-\\x0d\\x20](.*[^\\x09-\\x0d\\x20])?'
                        ),
                        ''
                      ),
                      'x'
                    ) AS `text_1`,
                    SHA2(
                      NULLIF(
                        REGEXP_SUBSTR(
                          CAST(`who's` AS CHAR) COLLATE utf8mb4_0900_bin,
                          '(?s)[^\\x09-\\x0d\\x20](.*[^\\x09-\\x0d\\x20])?'
                        ),
                        ''
                      ),
                      256
                    ) AS `unit_id`
                  FROM `ward`.`patients`
                ) AS below
                WHERE
                  NOT `unit_id` IS NULL
              ) AS below
            ) AS below
          ) AS below
          WHERE
            NOT `code_0` IS NULL AND NOT `code_1` IS NULL
        ) AS below
      ) AS below
    ) AS below
    WHERE
      `rank_of_row` <= CAST(2 AS SIGNED)
  ) AS below
) AS below
GROUP BY
  `by_0`;

-- texts of persons
SELECT
  MIN(`text`),
  COUNT(*)
FROM (
  SELECT
    `text_0` AS `text`,
    SHA2(`text_0`, 256) AS `key`
  FROM (
    SELECT
      *
    FROM (
      SELECT
        *,
        ROW_NUMBER() OVER (
          PARTITION BY `unit_id`
          ORDER BY CASE WHEN SHA2(`text_0`, 256) IS NULL THEN 1 ELSE 0 END, SHA2(`text_0`, 256), CASE WHEN `text_0` IS NULL THEN 1 ELSE 0 END, `text_0`
        ) AS `rank_of_row`
      FROM (
        SELECT
          *
        FROM (
          SELECT
            *,
            CASE
              WHEN `text_0` = 'f'
              THEN CAST(0 AS SIGNED)
              WHEN `text_0` = 'm'
              THEN CAST(1 AS SIGNED)
              WHEN `text_0` = 'it''s \\'
              THEN CAST(2 AS SIGNED)
              ELSE CAST(2 AS SIGNED)
            END AS `code_0`
          FROM (
            SELECT
              *
            FROM (
              SELECT
                NULLIF(
                  NULLIF(
                    REGEXP_SUBSTR(
                      CAST(`sex` AS CHAR) COLLATE utf8mb4_0900_bin,
                      '(?s)[^\\x09-\\x0d\\x20](.*[^\\x09-\\x0d\\x20])?'
                    ),
                    ''
                  ),
                  'x'
                ) AS `text_0`,
                SHA2(
                  NULLIF(
                    REGEXP_SUBSTR(
                      CAST(`who's` AS CHAR) COLLATE utf8mb4_0900_bin,
                      '(?s)[^\\x09-\\x0d\\x20](.*[^\\x09-\\x0d\\x20])?'
                    ),
                    ''
                  ),
                  256
                ) AS `unit_id`
              FROM `ward`.`patients`
            ) AS below
            WHERE
              NOT `unit_id` IS NULL
          ) AS below
        ) AS below
        WHERE
          NOT `text_0` IS NULL
      ) AS below
    ) AS below
    WHERE
      `rank_of_row` <= CAST(2 AS SIGNED)
  ) AS below
) AS below
GROUP BY
  `key`;

-- one value a person
SELECT
  `cell`,
  COUNT(*)
FROM (
  SELECT
    CASE WHEN `position` = CAST(0 AS SIGNED) THEN `cell_0` END AS `cell`
  FROM (
    SELECT
      CAST(0 AS SIGNED) + (
        `code_0` * CAST(2 AS SIGNED)
      ) + `code_1` * CAST(1 AS SIGNED) AS `cell_0`
    FROM (
      SELECT
        *
      FROM (
        SELECT
          *,
          ROW_NUMBER() OVER (
            PARTITION BY `unit_id`
            ORDER BY CASE WHEN MOD(
              (
                MOD(
                  MOD(`value_0`, CAST(1000003 AS SIGNED)) * CAST(354198 AS SIGNED),
                  CAST(1000003 AS SIGNED)
                ) + MOD(
                  MOD(`value_1`, CAST(1000003 AS SIGNED)) * CAST(544885 AS SIGNED),
                  CAST(1000003 AS SIGNED)
                )
              ),
              CAST(1000003 AS SIGNED)
            ) IS NULL THEN 1 ELSE 0 END, MOD(
              (
                MOD(
                  MOD(`value_0`, CAST(1000003 AS SIGNED)) * CAST(354198 AS SIGNED),
                  CAST(1000003 AS SIGNED)
                ) + MOD(
                  MOD(`value_1`, CAST(1000003 AS SIGNED)) * CAST(544885 AS SIGNED),
                  CAST(1000003 AS SIGNED)
                )
              ),
              CAST(1000003 AS SIGNED)
            ), CASE WHEN `value_0` IS NULL THEN 1 ELSE 0 END, `value_0`, CASE WHEN `value_1` IS NULL THEN 1 ELSE 0 END, `value_1`, CASE WHEN `code_0` IS NULL THEN 1 ELSE 0 END, `code_0`, CASE WHEN `code_1` IS NULL THEN 1 ELSE 0 END, `code_1`
          ) AS `rank_of_row`
        FROM (
          SELECT
            *,
            `code_0` AS `value_0`,
            CAST(FLOOR(
              CASE
                WHEN (
                  `number_1` * CAST('100.0' AS DOUBLE)
                ) + CAST('0.5' AS DOUBLE) < CAST('0.0' AS DOUBLE)
                THEN CAST('0.0' AS DOUBLE)
                WHEN (
                  `number_1` * CAST('100.0' AS DOUBLE)
                ) + CAST('0.5' AS DOUBLE) > CAST('10000.0' AS DOUBLE)
                THEN CAST('10000.0' AS DOUBLE)
                ELSE (
                  `number_1` * CAST('100.0' AS DOUBLE)
                ) + CAST('0.5' AS DOUBLE)
              END
            ) AS SIGNED) AS `value_1`
          FROM (
            SELECT
              *
            FROM (
              SELECT
                *,
                CASE
                  WHEN `text_0` = 'f'
                  THEN CAST(0 AS SIGNED)
                  WHEN `text_0` = 'm'
                  THEN CAST(1 AS SIGNED)
                  ELSE CASE WHEN `text_0` IS NULL THEN CAST(1 AS SIGNED) ELSE CAST(NULL AS SIGNED) END
                END AS `code_0`,
                CASE
                  WHEN NOT `number_1` IS NULL
                  THEN CASE
                    WHEN `number_1` >= CAST('10.0' AS DOUBLE)
                    THEN CAST(1 AS SIGNED)
                    ELSE CAST(0 AS SIGNED)
                  END
                END AS `code_1`
              FROM (
                SELECT
                  *,
                  CAST(`taken_0` AS CHAR) COLLATE utf8mb4_0900_bin AS `text_0`,
                  `taken_1` AS `number_1`,
                  CASE WHEN NOT `taken_1` IS NULL THEN '1' END AS `text_1`
                FROM (
                  SELECT
                    below.*,
                    CAST(`category` AS CHAR) COLLATE utf8mb4_0900_bin AS `taken_0`
                  FROM (
                    SELECT
                      *,
                      (
                        CAST(CAST(CASE
                          WHEN `value_of_person_1` < CAST(-9007199254740992 AS DECIMAL(38, 0))
                          THEN CAST(-9007199254740992 AS DECIMAL(38, 0))
                          WHEN `value_of_person_1` > CAST(9007199254740992 AS DECIMAL(38, 0))
                          THEN CAST(9007199254740992 AS DECIMAL(38, 0))
                          ELSE `value_of_person_1`
                        END AS SIGNED) AS DOUBLE) / CAST('100.0' AS DOUBLE)
                      ) AS `taken_1`
                    FROM (
                      SELECT
                        `unit_id`,
                        MIN(CASE WHEN `rank_of_value_0` = `end_of_person_0` THEN `code_0` END) AS `value_of_person_0`,
                        SUM(
                          CAST(CAST(FLOOR(
                            CASE
                              WHEN (
                                `number_1` * CAST('100.0' AS DOUBLE)
                              ) + CAST('0.5' AS DOUBLE) < CAST('0.0' AS DOUBLE)
                              THEN CAST('0.0' AS DOUBLE)
                              WHEN (
                                `number_1` * CAST('100.0' AS DOUBLE)
                              ) + CAST('0.5' AS DOUBLE) > CAST('1000.0' AS DOUBLE)
                              THEN CAST('1000.0' AS DOUBLE)
                              ELSE (
                                `number_1` * CAST('100.0' AS DOUBLE)
                              ) + CAST('0.5' AS DOUBLE)
                            END
                          ) AS SIGNED) AS DECIMAL(18, 0))
                        ) AS `value_of_person_1`
                      FROM (
                        SELECT
                          *,
                          MAX(`rank_of_value_0`) OVER (PARTITION BY `unit_id`) AS `end_of_person_0`
                        FROM (
                          SELECT
                            *,
                            COUNT(`code_0`) OVER (PARTITION BY `unit_id`, `code_0`) AS `rank_of_value_0`
                          FROM (
                            SELECT
                              *,
                              CASE
                                WHEN `text_0` = 'f'
                                THEN CAST(0 AS SIGNED)
                                WHEN `text_0` = 'm'
                                THEN CAST(1 AS SIGNED)
                                ELSE CAST(NULL AS SIGNED)
                              END AS `code_0`
                            FROM (
                              SELECT
                                *,
                                CAST(`operation_1` AS CHAR) COLLATE utf8mb4_0900_bin AS `text_0`,
                                `number_3` AS `number_1`,
                                CASE WHEN NOT `number_3` IS NULL THEN '1' END AS `text_1`
                              FROM (
                                SELECT
                                  *,
                                  NULLIF(
                                    REGEXP_SUBSTR(
                                      CAST(SUBSTR(`text_2`, 1, 1) AS CHAR) COLLATE utf8mb4_0900_bin,
                                      '(?s)[^\\x09-\\x0d\\x20](.*[^\\x09-\\x0d\\x20])?'
                                    ),
                                    ''
                                  ) AS `operation_1`
                                FROM (
                                  SELECT
                                    *,
                                    CASE
                                      WHEN REGEXP_INSTR(
                                        `text_3`,
                                        '^[+-]?([0-9]{1,40}([.][0-9]{0,40})?|[.][0-9]{1,40})([eE][+-]?[0-9]{1,2})?\\z'
                                      ) = 1
                                      THEN CAST(`text_3` AS DOUBLE)
                                    END AS `number_3`
                                  FROM (
                                    SELECT
                                      *
                                    FROM (
                                      SELECT
                                        NULLIF(
                                          NULLIF(
                                            REGEXP_SUBSTR(
                                              CAST(`sex` AS CHAR) COLLATE utf8mb4_0900_bin,
                                              '(?s)[^\\x09-\\x0d\\x20](.*[^\\x09-\\x0d\\x20])?'
                                            ),
                                            ''
                                          ),
                                          'x'
                                        ) AS `text_2`,
                                        NULLIF(
                                          REGEXP_SUBSTR(
                                            CAST(`wage` AS CHAR) COLLATE utf8mb4_0900_bin,
                                            '(?s)[^\\x09-\\x0d\\x20](.*[^\\x09-\\x0d\\x20])?'
                                          ),
                                          ''
                                        ) AS `text_3`,
                                        SHA2(
                                          NULLIF(
                                            REGEXP_SUBSTR(
                                              CAST(`who's` AS CHAR) COLLATE utf8mb4_0900_bin,
                                              '(?s)[^\\x09-\\x0d\\x20](.*[^\\x09-\\x0d\\x20])?'
                                            ),
                                            ''
                                          ),
                                          256
                                        ) AS `unit_id`
                                      FROM `ward`.`patients`
                                    ) AS below
                                    WHERE
                                      NOT `unit_id` IS NULL
                                  ) AS below
                                ) AS below
                              ) AS below
                            ) AS below
                          ) AS below
                        ) AS below
                      ) AS below
                      GROUP BY
                        `unit_id`
                    ) AS below
                  ) AS below
                  LEFT JOIN (
                    SELECT
                      CAST(category AS CHAR) COLLATE utf8mb4_0900_bin AS `category`,
                      CAST(place - 1 AS SIGNED) AS `position`
                    FROM JSON_TABLE('["f", "m"]', '$[*]' COLUMNS(place FOR ORDINALITY, category LONGTEXT CHARACTER SET utf8mb4 PATH '$')) AS given
                  ) AS named
                    ON `value_of_person_0` = `position`
                ) AS below
              ) AS below
            ) AS below
            WHERE
              NOT `code_0` IS NULL AND NOT `code_1` IS NULL
          ) AS below
        ) AS below
      ) AS below
      WHERE
        `rank_of_row` <= CAST(1 AS SIGNED)
    ) AS below
  ) AS below
  CROSS JOIN (
    SELECT
      CAST(category AS CHAR) COLLATE utf8mb4_0900_bin AS `category`,
      CAST(place - 1 AS SIGNED) AS `position`
    FROM JSON_TABLE('[""]', '$[*]' COLUMNS(place FOR ORDINALITY, category LONGTEXT CHARACTER SET utf8mb4 PATH '$')) AS given
  ) AS named
) AS below
GROUP BY
  `cell`;
