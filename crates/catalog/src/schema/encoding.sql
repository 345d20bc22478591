-- What a client encoding's characters are, by PostgreSQL's own conversions: a router that knows it converts as PostgreSQL would. First a row
-- with the encoding's name alone, if it is one. 'l': how many bytes a character has that begins so; 'd': bytes that are a character; 'u': bytes
-- that are one which Unicode does not have; 'e': the bytes that a character becomes, of encodings whose characters have several. Nothing more of encodings with characters of four bytes, or of which several make one character.
CREATE OR REPLACE FUNCTION herd.encoding(asked text)
RETURNS TABLE (name text, way text, bytes text, means text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS
$$ DECLARE
    number integer := pg_char_to_encoding(asked::name);
    longest integer;
    tried bytea;
    lengths integer[] := '{}';
BEGIN
    name := pg_encoding_to_char(number);
    longest := pg_encoding_max_length(number);
    IF name = '' THEN
        RETURN;
    END IF;
    RETURN NEXT;
    IF longest > 3 OR name IN ('UTF8', 'SQL_ASCII', 'EUC_JIS_2004', 'SHIFT_JIS_2004') THEN
        RETURN;
    END IF;
    way := 'l';
    FOR a IN 128..255 LOOP
        tried := set_byte('\x00616161'::bytea, 0, a);
        bytes := encode(substr(tried, 1, 1), 'hex');
        BEGIN
            means := 5 - length(convert_from(tried, name));
        EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
            -- It lists them.
            means := (length(SQLERRM) - length(replace(SQLERRM, '0x', ''))) / 2;
        END;
        lengths[a] := means;
        RETURN NEXT;
    END LOOP;
    FOR tried IN
        SELECT set_byte('\x00'::bytea, 0, a) FROM generate_series(128, 255) a WHERE lengths[a] = 1
        UNION ALL
        SELECT set_byte(set_byte('\x0000'::bytea, 0, a), 1, b)
          FROM generate_series(128, 255) a, generate_series(1, 255) b WHERE lengths[a] = 2
        UNION ALL
        SELECT set_byte(set_byte(set_byte('\x000000'::bytea, 0, a), 1, b), 2, c)
          FROM generate_series(128, 255) a, generate_series(161, 254) b, generate_series(161, 254) c WHERE lengths[a] = 3
    LOOP
        bytes := encode(tried, 'hex');
        BEGIN
            means := convert_from(tried, name);
            way := 'd';
            RETURN NEXT;
        EXCEPTION
            WHEN character_not_in_repertoire THEN NULL;
            WHEN untranslatable_character THEN
                way := 'u';
                means := '';
                RETURN NEXT;
        END;
    END LOOP;
    IF longest = 1 THEN
        RETURN;
    END IF;
    way := 'e';
    FOR point IN 128..65535 LOOP
        CONTINUE WHEN point BETWEEN 55296 AND 57343;
        BEGIN
            means := chr(point);
            bytes := encode(convert_to(means, name), 'hex');
            RETURN NEXT;
        EXCEPTION WHEN untranslatable_character THEN
        END;
    END LOOP;
END $$;
COMMENT ON FUNCTION herd.encoding(text) IS 'what a client encoding''s characters are, for routers';
