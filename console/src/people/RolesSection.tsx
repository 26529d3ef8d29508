/** What each role may do. */

import { Table, Text } from "@mantine/core";
import { ROLES } from "../app/permissions";
import { text } from "../texts";
import { Rows } from "./Rows";

export function RolesSection() {
  return (
    <>
      <Text size="sm" c="dimmed" mb="xs">
        {text("people.roles.details")}
      </Text>
      <Rows label={text("people.section.roles")} heads={[text("people.role"), text("people.roles.may")]}>
        {ROLES.map((role) => (
          <Table.Tr key={role}>
            <Table.Th scope="row" w={90}>
              {text(`app.role.${role}`)}
            </Table.Th>
            <Table.Td>{text(`people.roles.${role}`)}</Table.Td>
          </Table.Tr>
        ))}
      </Rows>
    </>
  );
}
